"""The codec for columns without a declared type: it inspects each batch."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from tidemill.common.type_kinds.python import is_named_tuple
from tidemill.common.types import Row
from tidemill.state.codecs.base import NONE, TRUSTED, ColumnCodec, Loading, kinds_of
from tidemill.state.codecs.basic import (
    BigDecimalCodec,
    BigIntCodec,
    BooleanCodec,
    BytesCodec,
    DoubleCodec,
    NullCodec,
    StringCodec,
    UuidCodec,
)
from tidemill.state.codecs.class_names import is_findable, is_plain_dataclass
from tidemill.state.codecs.collections import EnumCodec, ListCodec, MapCodec
from tidemill.state.codecs.fields import DataclassCodec, NamedTupleCodec, TupleCodec
from tidemill.state.codecs.row import RowCodec
from tidemill.state.codecs.tagged import TaggedCodec
from tidemill.state.codecs.tagged_writer import has_only_fields
from tidemill.state.codecs.time import DateCodec, TimeCodec, TimestampCodec

__all__ = ["AnyCodec"]

_BASIC: dict[type, ColumnCodec] = {
    int: BigIntCodec(),
    float: DoubleCodec(),
    str: StringCodec(),
    bytes: BytesCodec(),
    bool: BooleanCodec(),
    Decimal: BigDecimalCodec(),
    UUID: UuidCodec(),
    dt.date: DateCodec(),
    dt.datetime: TimestampCodec(),
    dt.time: TimeCodec(),
}

# Arrow's IPC reader supports 64 levels; a map counts as two, and declared types add more. Each field of a struct is a
# separate column, which must be worth its 200 or so bytes per file.
_MAX_DEPTH = 8
_MAX_FIELDS = 64


class AnyCodec(TaggedCodec):
    """Values of any type, which are restored exactly.

    :meth:`encode_best` inspects the batch. Values of one type become a column of that type: numbers, text, bytes,
    dates, tuples, lists, dicts, rows, dataclasses, NamedTuples and enums, whose fields and elements are inspected in
    the same way. All others become a column in the tagged form, with pickle only for values that have no other form.
    :meth:`encode` always produces the tagged form.
    """

    name = "any"

    def __init__(self, depth: int = 0, *, loading: Loading = TRUSTED) -> None:
        super().__init__(pickle=loading.allow_pickle, loading=loading)
        self._depth = depth

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        codec = None if exact else self._uniform(values)
        if codec is None:
            return super()._encode(values, exact=exact)
        return codec._encode(values, exact=False)

    def _uniform(self, values: list[Any]) -> ColumnCodec | None:
        """The codec for values that are all of one type, or None."""
        kinds = kinds_of(values)
        kinds.discard(NONE)
        if len(kinds) != 1:
            return None if kinds else NullCodec()
        kind = kinds.pop()
        basic = _BASIC.get(kind)
        if basic is not None:
            return basic
        if self._depth >= _MAX_DEPTH:
            return None
        if kind is list:
            return ListCodec(self._inner())
        if kind is dict:
            return MapCodec(self._inner(), self._inner())
        present = [value for value in values if value is not None]
        if kind is tuple:
            return self._tuple(present)
        return self._row(present) if kind is Row else self._of_class(kind, present)

    def _inner(self) -> AnyCodec:
        return AnyCodec(self._depth + 1)

    def _tuple(self, values: list[Any]) -> ColumnCodec | None:
        width = _common(map(len, values))
        return TupleCodec([self._inner()] * width) if width and width <= _MAX_FIELDS else None

    def _row(self, values: list[Row]) -> ColumnCodec | None:
        width = _common(map(len, values))
        names = {row.get_field_names() for row in values}
        if not width or width > _MAX_FIELDS or len(names) > 1:
            return None
        fields = names.pop()
        if fields is not None and (len(fields) != width or len(set(fields)) != width):
            return None
        return RowCodec([self._inner()] * width, fields)

    def _of_class(self, kind: type, values: list[Any]) -> ColumnCodec | None:
        if not is_findable(kind):
            return None
        if issubclass(kind, Enum):
            return EnumCodec(kind)
        if is_named_tuple(kind) and kind.__reduce_ex__ is object.__reduce_ex__:
            names = list(kind._fields)  # type: ignore[attr-defined]
            plain = not any(getattr(value, "__dict__", None) for value in values)
            plain = plain and _common(map(len, values)) == len(names)
            codec: Any = NamedTupleCodec
        elif is_plain_dataclass(kind):
            names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
            plain = all(has_only_fields(value, names) for value in values)
            codec = DataclassCodec
        else:
            return None
        if not plain or not 0 < len(names) <= _MAX_FIELDS:
            return None
        made: ColumnCodec = codec(kind, [self._inner()] * len(names), names)
        return made

    def _parameters(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(loading=loading)


def _common(lengths: Any) -> int | None:
    found = set(lengths)
    return found.pop() if len(found) == 1 else None
