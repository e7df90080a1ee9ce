"""Values with the time of their last access, which a state with a time to live stores instead of plain values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidemill.common.typeinfo import TypeInformation
from tidemill.state.codecs.base import NONE, ColumnCodec, Loading, kinds_of, null_mask, put_nulls, refuse, restore_codec
from tidemill.state.codecs.copies import ATOMIC, COPIERS

if TYPE_CHECKING:
    from tidemill.state.files.ttl_declared import DeclaredTtl

__all__ = ["LAST_ACCESS", "Stamped", "StampedTypeInfo", "TtlCodec"]

#: Field of the struct that contains the time of the last access, in milliseconds.
LAST_ACCESS = "last_access"
_VALUE = "value"


class Stamped:
    """A value, and the time in milliseconds at which it was last accessed. Immutable."""

    __slots__ = ("time", "value")

    def __init__(self, value: Any, time: int) -> None:
        self.value = value
        self.time = time

    def detached(self) -> Stamped:
        """A copy whose value does not change with this one; this one itself if its value is immutable."""
        return self if type(self.value) in ATOMIC else Stamped(copy.deepcopy(self.value), self.time)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stamped) and (self.value, self.time) == (other.value, other.time)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Stamped({self.value!r}, {self.time})"


COPIERS[Stamped] = Stamped.detached


class TtlCodec(ColumnCodec):
    """struct of ``value`` and ``last_access``: :class:`Stamped` values. A null means that there is no value."""

    name = "ttl"

    def __init__(self, value: ColumnCodec) -> None:
        self._value = value
        self.arrow_type = _struct(value.arrow_type)

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        kinds = kinds_of(values)
        if not kinds <= {Stamped, NONE}:
            refuse(values, "a value with the time of its last access", lambda value: isinstance(value, Stamped))
        nulls = NONE in kinds
        rows = [_BLANK if value is None else value for value in values] if nulls else values
        used, inner = self._value._encode([row.value for row in rows], exact=exact)
        times = np.fromiter(map(attrgetter("time"), rows), np.int64, len(rows))
        array = pa.StructArray.from_arrays(
            [inner, pa.array(times)],
            fields=list(_struct(inner.type)),
            mask=null_mask(values) if nulls else None,
        )
        return (self if used is self._value else TtlCodec(used)), array

    def decode(self, array: Any) -> list[Any]:
        values = self._value.decode(array.field(0))
        times = array.field(1).to_numpy(zero_copy_only=False).tolist()
        return put_nulls(list(map(Stamped, values, times)), array)

    def classes(self) -> dict[str, type]:
        return self._value.classes()

    def _parameters(self) -> dict[str, Any]:
        return {"value": self._value.spec()}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(restore_codec(spec["value"], loading))


class StampedTypeInfo(TypeInformation):
    """The type of :class:`Stamped` values in a state under a time to live. Internal: no program declares it."""

    kind = "stamped"

    def __init__(self, elem_type: TypeInformation, ttl: DeclaredTtl | None = None) -> None:
        self.elem_type = elem_type
        self.ttl = ttl

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, Stamped):
            self.mismatch(value, path)
        self.elem_type.validate(value.value, path)

    def _identity(self) -> tuple[Any, ...]:
        return (self.elem_type,)

    def _parameters(self) -> dict[str, Any]:
        return {"element": self.elem_type.describe()}

    def __repr__(self) -> str:
        return f"StampedTypeInfo<{self.elem_type}>"


def _struct(value_type: Any) -> Any:
    return pa.struct([pa.field(_VALUE, value_type), pa.field(LAST_ACCESS, pa.int64(), nullable=False)])


_BLANK = Stamped(None, 0)
