"""The form in which values of a declared type are returned from storage.

A state accepts values that its type does not describe exactly: an int for a double, a list for a tuple, a tuple for a
row. Storage returns them in the declared type. A value that stays in memory must be converted in the same way;
otherwise results would depend on whether a worker was restarted. So single numbers and strings are converted when they
are put, and all others when their epoch is committed: until then a function gets the same object that it has put.
Items of tuples, rows, lists and maps that cannot be stored in their types, such as a number with a fraction for an
integer type, are converted as Flink's serializers do, unless types are strict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final

from tidemill.common.calls import with_each
from tidemill.common.type_kinds.base import FastCheck, TypeInformation, all_types_in
from tidemill.common.type_kinds.basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    exact_check,
)
from tidemill.common.type_kinds.composite import (
    ListTypeInfo,
    ObjectArrayTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    TupleTypeInfo,
)
from tidemill.common.type_kinds.python import DataclassTypeInfo, NamedTupleTypeInfo
from tidemill.errors import SerializationError, TidemillError, TypeMismatchError
from tidemill.state.codecs.column_codecs import codec_for, decode_column, encode_column
from tidemill.state.codecs.ttl import Stamped, StampedTypeInfo

__all__ = ["NormalForm", "Unknown", "is_simple", "key_form", "normal_form", "one_key_form", "stream_key_form"]

Convert = Callable[[Any], Any]

_LISTS: Final = frozenset((list,))


class Unknown:
    """A type that no value has."""


class NormalForm:
    """The conversion of values to their stored form, for one type."""

    def __init__(self, type_info: TypeInformation, *, strict: bool = True) -> None:
        """Unless ``strict``, values are converted as in Flink: simple ones when they are put, others when settled."""
        #: Values of exactly this type are not changed.
        self.kind: type = Unknown
        #: Converts a value that is put; None if nothing is done until the epoch is committed.
        self.convert: Convert | None = None
        if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _SCALARS:
            self.kind, self.convert = _SCALARS[type_info.basic_type]
        if not strict and is_simple(type_info):
            self.kind = _EXACT.get(type_info, Unknown)
            self.convert = partial(_coerced_unless, self.kind, type_info.coerce)
        self._coerce = None if strict else partial(_coerced, type_info.coerce)
        #: The types of values that need no check.
        self.kinds = frozenset((self.kind, type(None)))
        self._codec = codec_for(type_info)
        self._is_normal = _check(type_info)

    def put(self, value: Any) -> Any:
        """A value as it is kept until its epoch is committed: a single number or string is converted immediately."""
        return value if self.convert is None or type(value) is self.kind else self.convert(value)

    def settled(self, values: list[Any]) -> list[Any]:
        """All values as storage returns them: the same list if no value changes."""
        if self.kinds.issuperset(map(type, values)) or self._is_normal([v for v in values if v is not None]):
            return values
        try:
            return self._stored(values)
        except SerializationError:
            if self._coerce is None:
                raise
        return self._stored(self.storable(values))

    def storable(self, values: list[Any]) -> list[Any]:
        """Values in a form that can be stored, as far as they have one; unchanged if types are strict."""
        coerce = self._coerce
        return values if coerce is None else [self._storable(value, coerce) for value in values]

    def _stored(self, values: list[Any]) -> list[Any]:
        field, array = encode_column("value", self._codec, values)
        return decode_column(field, array, declared=self._codec)

    def _storable(self, value: Any, coerce: Convert) -> Any:
        """Convert a value only if it cannot be stored as it is: one that can keeps the precision of its times."""
        try:
            self._stored([value])
        except SerializationError:
            return coerce(value)
        return value


class _StampedForm(NormalForm):
    """The form of values with the time of their last access."""

    def __init__(self, type_info: StampedTypeInfo, *, strict: bool = True) -> None:
        super().__init__(type_info)
        inner = NormalForm(type_info.elem_type, strict=strict)
        self._inner = inner
        if (convert := inner.convert) is not None:
            kind = inner.kind

            def stamped(value: Any) -> Any:
                if type(value.value) is kind or value.value is None:
                    return value
                return Stamped(convert(value.value), value.time)

            self.convert = stamped

    def settled(self, values: list[Any]) -> list[Any]:
        return self._with(values, self._inner.settled)

    def storable(self, values: list[Any]) -> list[Any]:
        return self._with(values, self._inner.storable)

    @staticmethod
    def _with(values: list[Any], convert: Callable[[list[Any]], list[Any]]) -> list[Any]:
        inside = [None if value is None else value.value for value in values]
        converted = convert(inside)
        if converted is inside:
            return values
        return [
            value if value is None else Stamped(found, value.time)
            for value, found in zip(values, converted, strict=True)
        ]


def normal_form(type_info: TypeInformation | None, *, strict: bool = True) -> NormalForm | None:
    """The form of values of a type; None if no type is declared, so that every value stays unchanged."""
    declared = type_info.elem_type if isinstance(type_info, StampedTypeInfo) else type_info
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        return None
    if isinstance(type_info, StampedTypeInfo):
        return _StampedForm(type_info, strict=strict)
    return NormalForm(declared, strict=strict)


def stream_key_form(type_info: TypeInformation | None) -> Callable[[list[Any]], list[Any]] | None:
    """Converts keys of a stream to the form of their declared type, as Flink does; None if none is declared.

    A key that its type does not describe is not changed: it is rejected when it is stored.
    """
    if type_info is None or not is_simple(type_info):
        return key_form(type_info)
    coerce = partial(_coerced, type_info.coerce)
    kind = _EXACT.get(type_info)
    if kind is None or kind in _WITH_MICROSECONDS:
        return lambda keys: [coerce(key) for key in keys]
    exact = frozenset((kind,))
    return lambda keys: keys if exact.issuperset(map(type, keys)) else [coerce(key) for key in keys]


def is_simple(type_info: TypeInformation) -> bool:
    """Whether values of a type are single numbers, texts or times."""
    return isinstance(type_info, (BasicTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo))


def _coerced_unless(kind: type, coerce: Convert, value: Any) -> Any:
    return value if type(value) is kind else _coerced(coerce, value)


def _coerced(coerce: Convert, value: Any) -> Any:
    if value is None:
        return None
    try:
        return coerce(value)
    except TypeMismatchError:
        return value  # rejected when it is stored


def key_form(type_info: TypeInformation | None) -> Callable[[list[Any]], list[Any]] | None:
    """Converts keys of a type to the form in which storage returns them; None if they are equal in any form.

    A tuple and a row are different keys, and so are rows with and without names. A key that its type does not describe
    is not changed: it is rejected when it is stored.
    """
    form = normal_form(type_info)
    if form is None or isinstance(type_info, BasicTypeInfo):
        return None

    def formed(keys: list[Any]) -> list[Any]:
        try:
            return form.settled(keys)
        except TidemillError:
            return keys if len(keys) == 1 else [formed([key])[0] for key in keys]

    return formed


def one_key_form(type_info: TypeInformation | None) -> Callable[[Any], Any]:
    """Converts one key of a map to its stored form, whatever its type; see :func:`key_form`."""
    form, composite = normal_form(type_info), key_form(type_info)
    if form is None:
        return lambda key: key
    return form.put if composite is None else lambda key: composite([key])[0]


def _check(type_info: TypeInformation) -> FastCheck:
    """Like ``fast_check`` of a type, for the values that storage returns.

    Streams keep objects unchanged, with the fields that they were given; storage creates new ones, field by field.
    """
    if isinstance(type_info, (DataclassTypeInfo, NamedTupleTypeInfo)):
        fields = zip(type_info.get_field_names(), [_check(field) for field in type_info.get_field_types()], strict=True)
        return _object_check(type_info.python_class, [(attrgetter(name), check) for name, check in fields])
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.elem_type == BasicTypeInfo(BasicType.BYTE):
        return exact_check(frozenset((bytes,)))
    if isinstance(type_info, OptionalTypeInfo):
        inner = _check(type_info.elem_type)
        return lambda values: inner([value for value in values if value is not None])
    if isinstance(type_info, (ListTypeInfo, ObjectArrayTypeInfo)):
        of_element = _check(type_info.elem_type)
        return lambda values: (
            all_types_in(_LISTS, values)
            and of_element([element for value in values for element in value if element is not None])
        )
    if isinstance(type_info, TupleTypeInfo):
        columns = [(itemgetter(i), _check(field)) for i, field in enumerate(type_info.get_field_types())]
        return _object_check(tuple, columns, width=len(columns))
    return type_info.fast_check()


def _object_check(kind: type, columns: Sequence[tuple[Convert, FastCheck]], width: int | None = None) -> FastCheck:
    exact = frozenset((kind,))

    def check(values: Sequence[Any]) -> bool:
        if not all_types_in(exact, values) or (width is not None and set(map(len, values)) - {width}):
            return False
        try:
            return all(is_normal([v for v in with_each(get, values) if v is not None]) for get, is_normal in columns)
        except AttributeError:
            return False

    return check


def _whole(value: Any) -> Any:
    value = _of_numpy(value)
    return int(value) if isinstance(value, int) else value


def _real(value: Any) -> Any:
    value = _of_numpy(value)
    if not isinstance(value, (int, float)):
        return value
    try:
        real = float(value)
    except OverflowError:
        return value
    return real if real == value or value != value else value  # a value that would be rounded is rejected later


def _text(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else value  # str() would return an enum's name


def _truth(value: Any) -> Any:
    return _of_numpy(value)


def _of_numpy(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


_SCALARS: Final[dict[BasicType, tuple[type, Convert]]] = {
    BasicType.BYTE: (int, _whole),
    BasicType.SHORT: (int, _whole),
    BasicType.INT: (int, _whole),
    BasicType.LONG: (int, _whole),
    BasicType.BIG_INT: (int, _whole),
    BasicType.FLOAT: (float, _real),
    BasicType.DOUBLE: (float, _real),
    BasicType.STRING: (str, _text),
    BasicType.CHAR: (str, _text),
    BasicType.BOOLEAN: (bool, _truth),
}
#: Values of these types are in the form of the declared type if they are exactly of the Python type.
_EXACT: Final[dict[TypeInformation, type]] = {
    **{BasicTypeInfo(basic): kind for basic, (kind, _) in _SCALARS.items() if basic is not BasicType.FLOAT},
    BasicTypeInfo(BasicType.BIG_DEC): Decimal,
    DateTypeInfo(): date,
    TimeTypeInfo(): time,
    TimestampTypeInfo(): datetime,
}
#: A state keeps what is below the millisecond, and time zones; keys do not have them.
_WITH_MICROSECONDS: Final = frozenset((time, datetime))
