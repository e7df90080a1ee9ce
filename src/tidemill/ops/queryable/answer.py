"""What a query is answered with: rows as they are stored, and how they become a value.

They are put together as a restore, or a merge of files, would do it, by the same code. To decode them is up to who
asked: a server neither unpickles anything nor imports the classes that a state names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidemill.errors import SerializationError, StateError
from tidemill.ops.queryable.errors import QueryableStateError
from tidemill.state.class_names import Loading
from tidemill.state.codec_ttl import Stamped
from tidemill.state.merging import merge_rows
from tidemill.state.plain_values import plain_loading, shown
from tidemill.state.sections import StateShape, read_rows
from tidemill.state.state_file import Section
from tidemill.state.tables import Rows
from tidemill.state.ttl_declared import MIN_TIME, stored_ttl
from tidemill.state.ttl_merge import Horizon, drop_expired_rows
from tidemill.state.ttl_rows import fit_times

__all__ = ["NOTHING", "Answer", "Part", "PartSchema"]

#: In place of a value: there is none. (A stored value is never this, but may be None in a map or a list.)
NOTHING: Final = object()


@dataclass(frozen=True)
class PartSchema:
    """How the rows of a part are read: what the section they are from says of itself, and its columns."""

    operator: str
    state: str
    kind: str
    schema: Mapping[str, Any]
    columns: Any

    @cached_property
    def encoded(self) -> bytes:
        """As bytes, for :meth:`decode`."""
        header = json.dumps([self.operator, self.state, self.kind, self.schema], separators=(",", ":")).encode()
        columns: bytes = self.columns.serialize().to_pybytes()
        return len(header).to_bytes(4, "little") + header + columns

    @cached_property
    def id(self) -> bytes:
        """Equal for equal schemas."""
        return hashlib.blake2b(self.encoded, digest_size=12).digest()

    @classmethod
    def decode(cls, data: bytes) -> PartSchema:
        """The inverse of :attr:`encoded`. Raises :class:`QueryableStateError`."""
        try:
            size = int.from_bytes(data[:4], "little")
            operator, state, kind, schema = json.loads(data[4 : 4 + size])
            columns = pa.ipc.read_schema(pa.py_buffer(data[4 + size :]))
        except (pa.ArrowException, ValueError, TypeError, OSError) as error:
            raise QueryableStateError(f"an answer has a schema that cannot be read: {error}") from error
        return cls(operator, state, kind, schema, columns)


@dataclass(frozen=True)
class Part:
    """Rows of one section."""

    schema: PartSchema
    rows: Any

    @cached_property
    def encoded(self) -> bytes:
        """The rows as bytes, without their schema."""
        data: bytes = self.rows.serialize().to_pybytes()
        return data

    @classmethod
    def decode(cls, schema: PartSchema, data: bytes) -> Part:
        """The rows of :attr:`encoded`. Raises :class:`QueryableStateError`."""
        try:
            rows = pa.ipc.read_record_batch(pa.py_buffer(data), schema.columns)
            rows.validate(full=True)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise QueryableStateError(f"an answer has rows that cannot be read: {error}") from error
        return cls(schema, rows)


@dataclass(frozen=True)
class Answer:
    """The rows of one key as of a committed epoch, oldest part first.

    ``slot`` is the place of the epoch's manifest in the log: it never goes back. ``time`` is when it is by the clock
    of the state's time to live, None if nothing expires. ``declared`` is how the program declares the state by now,
    without columns: rows that have not changed since may be older.
    """

    epoch: int
    slot: int
    time: int | None
    declared: PartSchema
    parts: tuple[Part, ...]

    def plain(self) -> Any:
        """The value as plain data: dicts for objects, names for enum members, a list or a dict for those states;
        :data:`NOTHING` if there is none. Raises :class:`~tidemill.errors.SerializationError` for a pickled value."""
        found = self._value(None, plain_loading(allow_pickle=False))
        return found if found is NOTHING else shown(found)

    def value(self, shape: StateShape, *, allow_pickle: bool) -> Any:
        """What is stored, in the types that ``shape`` declares; :data:`NOTHING` if there is none.

        Classes of the declared types are known. Only with ``allow_pickle`` are others imported, and pickles unpickled;
        otherwise they raise :class:`~tidemill.errors.SerializationError`.
        """
        codecs = [codec for codec in (shape.key, shape.user_key, shape.value) if codec is not None]
        classes = {name: known for codec in codecs for name, known in codec.classes().items()}
        return self._value(shape, Loading(allow_pickle, classes))

    def _value(self, shape: StateShape | None, loading: Loading) -> Any:
        if not self.parts:
            return NOTHING
        kind, ttl = self.declared.kind, stored_ttl(self.declared.schema)
        types = (self.declared.schema if shape is None else shape.schema).get("types")
        rows = [self._rows(part, types, ttl, loading) for part in self.parts]
        left = merge_rows(kind, rows, keep_deletes=False)
        if left is not None and ttl is not None and self.time is not None:
            time = self.time - ttl["ttl"]
            horizon = Horizon(time, MIN_TIME != ttl["since"] <= time)
            left = drop_expired_rows(kind, left, horizon, keep_deletes=False)
        return NOTHING if left is None else _joined(kind, left)

    @staticmethod
    def _rows(part: Part, types: dict[str, Any] | None, ttl: Mapping[str, Any] | None, loading: Loading) -> Rows:
        schema = part.schema
        table = pa.Table.from_batches([part.rows])
        section = Section(schema.operator, schema.state, schema.kind, dict(schema.schema), table)
        same = types == schema.schema.get("types")
        try:
            rows = read_rows(section, as_types=None if same else types, loading=loading)
        except (SerializationError, StateError):
            raise
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise SerializationError(f"state {schema.state!r} does not match its description: {error!r}") from error
        rows.values = fit_times(rows.values, rows.ops, stored_ttl(schema.schema), ttl, is_list=schema.kind == "list")
        return rows


def _joined(kind: str, rows: Rows) -> Any:
    """The entry that all rows of a key make up."""
    if kind == "list":
        return [_bare(item) for items in rows.values for item in items or ()]
    if kind == "map":
        return {key: _bare(value) for key, value in zip(rows.user_keys, rows.values, strict=True)}
    return _bare(rows.values[0])


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Stamped) else value
