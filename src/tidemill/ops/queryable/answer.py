"""Answers to queries: rows as they are stored, and how they are converted to a value.

The rows are merged by the same code as in a restore or a merge of files. The client decodes them: a server neither
unpickles anything nor imports the classes of a state.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from tidemill.checkpoint.model import Epoch
from tidemill.errors import SerializationError, StateError, TidemillError
from tidemill.ops.queryable.errors import QueryableStateError
from tidemill.state.codecs.class_names import Loading
from tidemill.state.codecs.plain_values import as_data, plain_loading
from tidemill.state.files.replacing import REPLACES
from tidemill.state.files.rows import PUT, Rows
from tidemill.state.files.section_kinds import SectionKind, section_kind
from tidemill.state.files.sections import StateShape, read_rows
from tidemill.state.files.state_file import Section
from tidemill.state.files.state_file_index import IndexedSection
from tidemill.state.files.ttl_declared import MIN_TIME, SCHEMA_KEY, stored_ttl
from tidemill.state.files.ttl_merge import Horizon, drop_expired_rows
from tidemill.state.files.ttl_rows import fit_times
from tidemill.state.merging import merge_rows

__all__ = ["NOTHING", "Answer", "AnswerPart", "AnswerValues", "Answers", "PartSchema", "Place", "ValueReader"]

#: Indicates that there is no value. (A stored value is never this, but may be None in a map or a list.)
NOTHING: Final = object()
#: Replaces the number of spans of a key that must be requested separately.
_ALONE: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class PartSchema:
    """How to read the rows of a part: the description and the columns of the section that contains them."""

    operator: str
    state: str
    kind: str
    schema: Mapping[str, Any]
    columns: Any

    @classmethod
    def of(cls, section: IndexedSection, columns: Any) -> PartSchema:
        """Return the schema of a section, without the fields that change from epoch to epoch and that no reader needs.

        So the rows of many epochs can be combined, and a client does not have to request a schema for each epoch.
        """
        schema = {name: value for name, value in section.schema.items() if name != REPLACES}
        if SCHEMA_KEY in schema:
            schema[SCHEMA_KEY] = {**schema[SCHEMA_KEY], "declared": 0}
        return cls(section.operator, section.state, section.kind, schema, columns)

    @cached_property
    def section_kind(self) -> SectionKind:
        """The kind of the section. Raises :class:`~tidemill.errors.SerializationError` if it is unknown."""
        return section_kind(self.kind)

    @cached_property
    def encoded(self) -> bytes:
        """The schema as bytes, for :meth:`decode`."""
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
            raise QueryableStateError(f"the schema in a response cannot be read: {error}") from error
        return cls(operator, state, kind, schema, columns)


@dataclass(frozen=True)
class AnswerPart:
    """Rows of one section."""

    schema: PartSchema
    rows: Any

    @cached_property
    def encoded(self) -> bytes:
        """The rows as bytes, without their schema."""
        data: bytes = self.rows.serialize().to_pybytes()
        return data

    def some(self, first: int, count: int) -> AnswerPart:
        """Return ``count`` rows, starting with row ``first``."""
        return AnswerPart(self.schema, self.rows.slice(first, count))

    @classmethod
    def decode(cls, schema: PartSchema, data: bytes) -> AnswerPart:
        """The rows of :attr:`encoded`. Raises :class:`QueryableStateError`."""
        try:
            rows = pa.ipc.read_record_batch(pa.py_buffer(data), schema.columns)
            rows.validate(full=True)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise QueryableStateError(f"the rows in a response cannot be read: {error}") from error
        return cls(schema, rows)


class ValueReader:
    """Converts rows to values: of the types that ``shape`` declares, or without a shape to plain data.

    In plain data, objects are dicts, enum members are names, and list and map states are a list or a dict. With a
    shape, the classes of its types are available. Other classes are imported, and pickles are unpickled, only with
    ``allow_pickle``.
    """

    def __init__(self, shape: StateShape | None = None, *, allow_pickle: bool = False) -> None:
        self._shape = shape
        self._loading = plain_loading(allow_pickle=False)
        if shape is not None:
            codecs = [codec for codec in (shape.key, shape.user_key, shape.value) if codec is not None]
            classes = {name: known for codec in codecs for name, known in codec.classes().items()}
            self._loading = Loading(allow_pickle, classes)

    def rows(self, part: AnswerPart, declared: PartSchema) -> Rows:
        """Decode the rows of a part. ``declared`` is the current declaration of the state.

        Raises :class:`~tidemill.errors.SerializationError` for rows that must not be read.
        """
        schema, ttl = part.schema, stored_ttl(declared.schema)
        types = (declared.schema if self._shape is None else self._shape.schema).get("types")
        table = pa.Table.from_batches([part.rows])
        section = Section(schema.operator, schema.state, schema.kind, dict(schema.schema), table)
        same = types == schema.schema.get("types")
        try:
            rows = read_rows(section, as_types=None if same else types, loading=self._loading)
        except (SerializationError, StateError):
            raise
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise SerializationError(f"state {schema.state!r} does not match its description: {error!r}") from error
        in_lists = schema.section_kind.in_lists
        rows.values = fit_times(rows.values, rows.ops, stored_ttl(schema.schema), ttl, in_lists=in_lists)
        return rows

    def value(self, spans: Sequence[tuple[Rows, int, int]], declared: PartSchema, time: int | None) -> Any:
        """Merge the rows of one key, oldest first. A span is (rows, first row, number of rows).

        ``time`` is the current time of the clock of the state's time to live. Returns :data:`NOTHING` if no value
        remains.
        """
        found = _merged(spans, declared, time)
        return found if found is NOTHING or self._shape is not None else as_data(found)


#: The location of the rows of a key: (number of the part, first row, number of rows), oldest first.
Place = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Answers:
    """The rows of some keys in a committed epoch; ``places`` are the locations of each key's rows in ``parts``.

    ``slot`` is the position of the epoch's manifest in the log; it never decreases. ``time`` is the current time of the
    clock of the state's time to live, None if nothing expires. ``declared`` is the current declaration of the state in
    the program, without columns; rows that have not changed since may have an older one. If a place is None, the key
    must be requested separately, because its rows are large or cannot be read.
    """

    epoch: Epoch
    slot: int
    time: int | None
    declared: PartSchema
    parts: tuple[AnswerPart, ...]
    places: tuple[Place | None, ...]

    def encoded(self) -> tuple[Any, ...]:
        """Return the values of a frame: see :mod:`tidemill.ops.queryable.wire`."""
        numbers: list[int] = []
        for place in self.places:
            if place is None:
                numbers.append(_ALONE)
                continue
            numbers.append(len(place))
            for span in place:
                numbers += span
        places = struct.pack(f"<{len(numbers)}I", *numbers)
        parts = [(part.schema.id, part.encoded) for part in self.parts]
        return self.epoch, self.slot, self.time, self.declared.id, parts, places

    @classmethod
    def decode(cls, values: tuple[Any, ...], schemas: Mapping[bytes, PartSchema]) -> Answers:
        """The inverse of :meth:`encoded`; ``schemas`` are the referenced ones. Raises :class:`QueryableStateError`."""
        epoch, slot, time, declared, parts, places = values
        decoded = tuple(AnswerPart.decode(schemas[schema], rows) for schema, rows in parts)
        sizes = [part.rows.num_rows for part in decoded]
        return cls(epoch, slot, time, schemas[declared], decoded, tuple(_places(places, sizes)))


def _places(data: bytes, sizes: Sequence[int]) -> Iterator[Place | None]:
    """Decode and check places from the network; ``sizes`` are the numbers of rows of all parts."""
    if len(data) % 4:
        raise QueryableStateError("the places in a response cannot be read")
    numbers = iter(struct.unpack(f"<{len(data) // 4}I", data))
    for spans in numbers:
        if spans == _ALONE:
            yield None
            continue
        flat = tuple(islice(numbers, 3 * spans))
        place = tuple(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
        if any(part >= len(sizes) or not 0 < count <= sizes[part] - first for part, first, count in place):
            raise QueryableStateError("a response refers to rows that it does not contain")
        yield place


class AnswerValues:
    """The values of some answers, decoded by one reader. The rows of all keys of a part are decoded together."""

    def __init__(self, answers: Answers, reader: ValueReader) -> None:
        # configuration
        self._answers = answers
        self._reader = reader
        # transient
        #: The rows of each part, None if they cannot be decoded together.
        self._rows: dict[int, Rows | None] = {}

    def of(self, number: int) -> Any:
        """Return the value of the key with this number, or :data:`NOTHING` if there is none.

        Raises :class:`~tidemill.errors.SerializationError` for a value that must not be read.
        """
        answers = self._answers
        spans = [self._span(*span) for span in answers.places[number] or ()]
        return self._reader.value(spans, answers.declared, answers.time)

    def _span(self, part: int, first: int, count: int) -> tuple[Rows, int, int]:
        answers, rows = self._answers, self._rows.get(part)
        if rows is None and part not in self._rows:
            try:
                rows = self._reader.rows(answers.parts[part], answers.declared)
            except TidemillError:  # it may be caused by a row of another key
                rows = None
            self._rows[part] = rows
        if rows is not None:
            return rows, first, count
        return self._reader.rows(answers.parts[part].some(first, count), answers.declared), 0, count


@dataclass(frozen=True)
class Answer:
    """The rows of one key in a committed epoch: see :class:`Answers`."""

    answers: Answers

    @property
    def epoch(self) -> int:
        """The committed epoch."""
        return self.answers.epoch

    @property
    def slot(self) -> int:
        """The position of its manifest in the log."""
        return self.answers.slot

    def plain(self) -> Any:
        """Return the value as plain data, or :data:`NOTHING` if there is none.

        Raises :class:`~tidemill.errors.SerializationError` for a pickled value.
        """
        return AnswerValues(self.answers, ValueReader()).of(0)


def _merged(spans: Sequence[tuple[Rows, int, int]], declared: PartSchema, time: int | None) -> Any:
    if not spans:
        return NOTHING
    kind, ttl = declared.section_kind, stored_ttl(declared.schema)
    if kind.is_single and ttl is None:  # the last row determines the value
        rows, first, count = spans[-1]
        last = first + count - 1
        return NOTHING if rows.ops and rows.ops[last] != PUT else rows.values[last]
    left = merge_rows(kind, [_some(*span) for span in spans], keep_deletes=False)
    if left is not None and ttl is not None and time is not None:
        until = time - ttl["ttl"]
        horizon = Horizon(until, MIN_TIME != ttl["since"] <= until)
        left = drop_expired_rows(kind, left, horizon, keep_deletes=False)
    return NOTHING if left is None else kind.content(left)


def _some(rows: Rows, first: int, count: int) -> Rows:
    """Return some of the rows. An empty column means the default for all rows, and remains empty."""
    end = first + count
    return Rows(
        rows.keys[first:end],
        rows.namespaces[first:end],
        rows.ops[first:end],
        rows.user_keys[first:end],
        rows.values[first:end],
    )
