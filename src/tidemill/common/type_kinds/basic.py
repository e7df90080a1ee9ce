"""Types of single values: numbers, text, dates, and pickled objects."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from tidemill.common.time import Instant
from tidemill.common.type_kinds.base import FastCheck, TypeInformation, all_types_in
from tidemill.common.type_kinds.coercion import (
    Coercion,
    big_decimal,
    date,
    instant,
    moment,
    real,
    single,
    singles,
    text,
    time_of_day,
    truth,
    whole,
)
from tidemill.common.type_kinds.internal_form import EPOCH_DAY


class BasicType(Enum):
    """The basic types. The enum value is the display name."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class _Rule(NamedTuple):
    """The Python types that a basic type accepts. Values of the types in ``exact`` need no conversion."""

    accepted: tuple[type, ...]
    exact: frozenset[type]
    nullable: bool = False
    bits: int | None = None


def _rule(*accepted: type, nullable: bool = False, bits: int | None = None) -> _Rule:
    """The first accepted type is the one that values are converted to."""
    exact = frozenset((accepted[0], type(None))) if nullable else frozenset(accepted[:1])
    return _Rule(accepted, exact, nullable, bits)


_RULES: dict[BasicType, _Rule] = {
    BasicType.STRING: _rule(str, nullable=True),
    BasicType.BYTE: _rule(int, bits=8),
    BasicType.BOOLEAN: _rule(bool),
    BasicType.SHORT: _rule(int, bits=16),
    BasicType.INT: _rule(int, bits=32),
    BasicType.LONG: _rule(int, bits=64),
    BasicType.FLOAT: _rule(float, int),
    BasicType.DOUBLE: _rule(float, int),
    BasicType.CHAR: _rule(str),
    BasicType.BIG_INT: _rule(int, nullable=True),
    BasicType.BIG_DEC: _rule(Decimal, nullable=True),
    BasicType.INSTANT: _rule(Instant, nullable=True),
}
_COERCIONS: dict[BasicType, Coercion] = {
    BasicType.STRING: text,
    BasicType.BYTE: whole,
    BasicType.BOOLEAN: truth,
    BasicType.SHORT: whole,
    BasicType.INT: whole,
    BasicType.LONG: whole,
    BasicType.FLOAT: single,
    BasicType.DOUBLE: real,
    BasicType.CHAR: text,
    BasicType.BIG_INT: whole,
    BasicType.BIG_DEC: big_decimal,
    BasicType.INSTANT: instant,
}
_NUMBERS = frozenset((int, float))
#: Converts an instance of a subclass to the type itself; ``str()`` would call the ``__str__`` of the subclass.
_PLAIN: dict[type, Callable[[Any], Any]] = {int: int, float: float, str: str.__str__}
_LARGEST = sys.float_info.max


class BasicTypeInfo(TypeInformation):
    """A number, a string or an instant.

    Integers must fit into the bits of their type. As in Python generally, an ``int`` is accepted for a floating point
    type and a ``bool`` for an integer type; they are converted to ``float`` and ``int``. A member of a string enum is
    converted to ``str``. ``FLOAT`` has single precision: a value is converted to the nearest one.
    """

    kind = "basic"

    def __init__(self, basic_type: BasicType) -> None:
        rule = _RULES[basic_type]
        self._basic_type = basic_type
        self._accepted = rule.accepted
        self._exact = rule.exact
        self._coercion = _COERCIONS[basic_type]
        self._is_char = basic_type is BasicType.CHAR
        self._is_single = basic_type is BasicType.FLOAT
        self.nullable = rule.nullable
        half = None if rule.bits is None else 1 << (rule.bits - 1)
        self._range: tuple[int, int] | None = None if half is None else (-half, half - 1)

    @property
    def basic_type(self) -> BasicType:
        return self._basic_type

    def _validate(self, value: Any, path: str) -> None:
        accepted: Any = self._accepted
        if not isinstance(value, accepted):
            self.mismatch(value, path)
        if self._range is not None and not self._range[0] <= value <= self._range[1]:
            wider = "Types.BIG_INT()" if self._basic_type is BasicType.LONG else "a wider type"
            self.mismatch(value, path, f" (it must be between {self._range[0]} and {self._range[1]}; declare {wider})")
        if self._is_char and len(value) != 1:
            self.mismatch(value, path, " (it must be one character)")
        if accepted[0] is float and isinstance(value, int) and abs(value) > _LARGEST:
            self.mismatch(value, path, " (it is too large for a floating point number)")

    def shape(self, value: Any) -> Any:
        form = self._accepted[0]
        if self._is_single:
            return single(value)
        return value if type(value) is form or form not in _PLAIN else _PLAIN[form](value)

    def _coerce(self, value: Any, path: str) -> Any:
        try:
            converted = self._coercion(value)
        except (TypeError, ValueError, ArithmeticError):
            self.mismatch(value, path)
        if self._range is not None and not self._range[0] <= converted <= self._range[1]:
            self._validate(converted, path)  # raises the error with the range
        return converted

    def coercer_of_literals(self) -> Callable[[list[Any]], list[Any]]:
        """Ints that are too large for a type of at most 32 bits keep the lowest bits, as Java's narrow types do."""
        if self._range is None or self._basic_type is BasicType.LONG:
            return super().coercer_of_literals()
        (low, high), coerce = self._range, self.shaper(strict=False)
        return lambda values: coerce([(v - low) % (high - low + 1) + low if type(v) is int else v for v in values])

    def shaper(self, *, strict: bool = True) -> Callable[[list[Any]], list[Any]]:
        one_by_one, exact = super().shaper(strict=strict), self._exact
        if self._accepted != _RULES[BasicType.DOUBLE].accepted:
            return one_by_one
        if self._is_single:

            def in_single_precision(values: list[Any]) -> list[Any]:
                if not exact.issuperset(map(type, values)):
                    return one_by_one(values)
                found = singles(values)
                return values if found == values else found

            return in_single_precision

        def shaped(values: list[Any]) -> list[Any]:
            if exact.issuperset(map(type, values)):
                return values
            if all_types_in(_NUMBERS, values) and max(map(abs, values)) <= _LARGEST:
                return list(map(float, values))
            return one_by_one(values)

        return shaped

    def fast_check(self) -> FastCheck:
        exact = self._exact
        if self._is_char:
            return lambda values: all_types_in(exact, values) and set(map(len, values)) <= {1}
        if self._is_single:
            return lambda values: all_types_in(exact, values) and singles(values) == values
        if self._range is None:
            return exact_check(exact)
        low, high = self._range

        def in_range(values: Sequence[Any]) -> bool:
            return not values or (all_types_in(exact, values) and low <= min(values) and max(values) <= high)

        return in_range

    def _identity(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def _parameters(self) -> dict[str, Any]:
        return {"name": self._basic_type.name}

    @classmethod
    def _restore(cls, data: Mapping[str, Any]) -> TypeInformation:
        return BasicTypeInfo(BasicType[data["name"]])

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INSTANT)


class _TimeTypeInfo(TypeInformation):
    """A date, a time of day or both. Strictly, the Python type must match exactly: a ``datetime`` is not a date."""

    nullable = True
    _python_type: type
    _coercion: staticmethod[[Any], Any]

    def _validate(self, value: Any, path: str) -> None:
        if not isinstance(value, self._python_type) or (
            self._python_type is dt.date and isinstance(value, dt.datetime)
        ):
            self.mismatch(value, path)

    def shape(self, value: Any) -> Any:
        return self._coercion(value)

    def _coerce(self, value: Any, path: str) -> Any:
        try:
            return self._coercion(value)
        except TypeError:
            self.mismatch(value, path)

    def fast_check(self) -> FastCheck:
        return exact_check(frozenset((self._python_type, type(None))))

    def _identity(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return type(self).__name__


class _MillisecondsTypeInfo(_TimeTypeInfo):
    """A time in milliseconds, without a time zone."""

    def fast_check(self) -> FastCheck:
        exact = frozenset((self._python_type,))

        def check(values: Sequence[Any]) -> bool:
            present = [value for value in values if value is not None] if None in values else values
            return all_types_in(exact, present) and _in_milliseconds(present)

        return check


class DateTypeInfo(_TimeTypeInfo):
    """``datetime.date``."""

    #: The number of 1970-01-01 in ``date.toordinal``.
    EPOCH_ORDINAL = EPOCH_DAY

    kind = "sql_date"
    _python_type = dt.date
    _coercion = staticmethod(date)


class TimeTypeInfo(_MillisecondsTypeInfo):
    """``datetime.time``, in milliseconds."""

    #: The internal form of midnight.
    EPOCH_ORDINAL = 0

    kind = "sql_time"
    _python_type = dt.time
    _coercion = staticmethod(time_of_day)


class TimestampTypeInfo(_MillisecondsTypeInfo):
    """``datetime.datetime``, in milliseconds."""

    kind = "sql_timestamp"
    _python_type = dt.datetime
    _coercion = staticmethod(moment)


def _in_milliseconds(values: Sequence[Any]) -> bool:
    """Whether times have no part below the millisecond, and no time zone."""
    return all(value.tzinfo is None and not value.microsecond % 1000 for value in values)


class SqlTimeTypeInfo(TypeInformation):
    """Access to the three date and time types."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()


class LocalTimeTypeInfo(_TimeTypeInfo):
    """The same three types under the names of Java's local date and time: an instance is one of them.

    >>> LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE)
    DateTypeInfo
    """

    class TimeType(Enum):
        """Which of the three."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __new__(cls, time_type: TimeType) -> Any:
        kinds = LocalTimeTypeInfo.TimeType
        found = {
            kinds.LOCAL_DATE: DateTypeInfo,
            kinds.LOCAL_TIME: TimeTypeInfo,
            kinds.LOCAL_DATE_TIME: TimestampTypeInfo,
        }
        return found[time_type]()


class InstantTypeInfo(BasicTypeInfo):
    """``Types.INSTANT()``, as PyFlink names its class."""

    def __new__(cls, basic_type: BasicType = BasicType.INSTANT) -> Any:
        return BasicTypeInfo(basic_type)


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object. It is serialized with pickle."""

    kind = "pickled"
    nullable = True

    @staticmethod
    def PICKLED_BYTE_ARRAY_TYPE_INFO() -> PickledBytesTypeInfo:
        return PickledBytesTypeInfo()

    def _validate(self, value: Any, path: str) -> None:
        pass

    def fast_check(self) -> FastCheck:
        return lambda values: True

    def _identity(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class ExternalTypeInfo(PickledBytesTypeInfo):
    """The type itself: PyFlink wraps types of tables so."""

    def __new__(cls, type_info: TypeInformation) -> Any:
        return type_info


def exact_check(allowed: frozenset[type]) -> FastCheck:
    """A fast check that only compares the exact types of the values."""
    issuperset = allowed.issuperset
    return lambda values: issuperset(map(type, values))
