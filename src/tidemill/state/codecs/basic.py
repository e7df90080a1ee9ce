"""Codecs of single values: numbers, text, bytes, UUIDs."""

from __future__ import annotations

from abc import abstractmethod
from array import array as primitive_array
from decimal import Decimal
from operator import index
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.state.codecs.base import NONE, ColumnCodec, kinds_of, put_nulls, refuse, to_list

__all__ = [
    "BigDecimalCodec",
    "BigIntCodec",
    "BooleanCodec",
    "BytesCodec",
    "DoubleCodec",
    "LongCodec",
    "NullCodec",
    "StringCodec",
    "UuidCodec",
    "Wtf8Codec",
]


class _PlainCodec(ColumnCodec):
    """Values that Arrow converts itself. Values of other types than ``_exact`` are passed to ``_normalise`` first."""

    _exact: ClassVar[frozenset[type]]
    _expected: ClassVar[str]

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        if not self._exact.issuperset(map(type, values)):
            values = self._normalised(values)
        try:
            return self, pa.array(values, self.arrow_type)
        except (OverflowError, pa.ArrowInvalid):
            refuse(values, self._expected, self._fits)

    def _normalised(self, values: list[Any]) -> list[Any]:
        normalise, fine = self._normalise, self._exact
        try:
            return [value if type(value) in fine else normalise(value) for value in values]
        except (TypeError, ValueError, OverflowError):
            refuse(values, self._expected, self._fits)

    def _normalise(self, value: Any) -> Any:
        """Convert a value of another type to an equal one of this codec's type; raises TypeError if there is none."""
        raise TypeError

    def _fits(self, value: Any) -> bool:
        try:
            pa.array([value if type(value) in self._exact else self._normalise(value)], self.arrow_type)
        except (TypeError, ValueError, OverflowError, pa.ArrowInvalid):
            return False
        return True

    def decode(self, array: Any) -> list[Any]:
        if array.null_count:  # numpy has no null integers or bools: decode a filler, then insert the nulls
            filled = array.fill_null(pa.scalar(0, pa.int64()).cast(array.type))
            return put_nulls(to_list(filled), array)
        return to_list(array)


class LongCodec(_PlainCodec):
    """int64: ints of 64 bits."""

    name = "int64"
    arrow_type = pa.int64()
    _exact = frozenset((int, NONE))
    _expected = "an int of 64 bits (declare Types.BIG_INT for larger ones)"

    def _normalise(self, value: Any) -> Any:
        return int(index(value))


class DoubleCodec(_PlainCodec):
    """float64: floats; also ints that a float represents exactly."""

    name = "float64"
    arrow_type = pa.float64()
    _exact = frozenset((float, NONE))
    _expected = "a float, or an int that a float represents exactly"

    def _normalise(self, value: Any) -> Any:
        if not isinstance(value, (int, float, np.floating, np.integer)):
            raise TypeError
        number = float(value)
        if number != value and value == value:
            raise ValueError
        return number


class BooleanCodec(_PlainCodec):
    """bool."""

    name = "bool"
    arrow_type = pa.bool_()
    _exact = frozenset((bool, NONE))
    _expected = "a bool"

    def _normalise(self, value: Any) -> Any:
        if not isinstance(value, np.bool_):
            raise TypeError
        return bool(value)


class BytesCodec(_PlainCodec):
    """large_binary: bytes. For byte arrays also bytearray, array.array, and lists of signed or unsigned bytes."""

    name = "binary"
    arrow_type = pa.large_binary()
    _exact = frozenset((bytes, NONE))
    _expected = "bytes"

    def _normalise(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return bytes([byte & 0xFF if -128 <= byte < 0 else byte for byte in value])
        if isinstance(value, (bytes, bytearray, memoryview, primitive_array)):
            return bytes(value)
        raise TypeError

    def decode(self, array: Any) -> list[Any]:
        return to_list(array)


class StringCodec(_PlainCodec):
    """large_string: str. A batch with lone surrogates, which are not UTF-8, becomes a :class:`Wtf8Codec` column."""

    name = "string"
    arrow_type = pa.large_string()
    _exact = frozenset((str, NONE))
    _expected = "a str without lone surrogates"

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        try:
            return super()._encode(values, exact=exact)
        except UnicodeEncodeError:
            if exact:
                refuse(values, self._expected, self._fits)
            return Wtf8Codec()._encode(self._normalised(values), exact=False)

    def _normalise(self, value: Any) -> Any:
        return str.__str__(value)

    def decode(self, array: Any) -> list[Any]:
        return to_list(array)


class _MappedCodec(ColumnCodec):
    """Values stored as other values that Arrow converts, with one Python call per value."""

    _python_type: ClassVar[type]

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        kind, to = self._python_type, self._to
        try:
            if not kinds_of(values) <= {kind, NONE}:
                values = [value if value is None else self._normalise(value) for value in values]
            return self, pa.array([value if value is None else to(value) for value in values], self.arrow_type)
        except TypeError:
            refuse(values, kind.__name__, lambda value: isinstance(value, kind))

    @abstractmethod
    def _to(self, value: Any) -> Any: ...

    @abstractmethod
    def _from(self, data: Any) -> Any: ...

    def _normalise(self, value: Any) -> Any:
        if not isinstance(value, self._python_type):
            raise TypeError
        return value

    def decode(self, array: Any) -> list[Any]:
        back = self._from
        try:
            return [value if value is None else back(value) for value in to_list(array)]
        except (ValueError, ArithmeticError) as error:
            raise SerializationError(f"a {self.name} column contains an invalid value: {error!r}") from error


class Wtf8Codec(_MappedCodec):
    """large_binary: str as UTF-8 in which lone surrogates are encoded like other code points."""

    name = "wtf8"
    arrow_type = pa.large_binary()
    _python_type = str

    def _to(self, value: Any) -> Any:
        return value.encode("utf-8", "surrogatepass")

    def _from(self, data: Any) -> Any:
        return data.decode("utf-8", "surrogatepass")


class BigIntCodec(_MappedCodec):
    """large_binary: ints of any size in two's complement, big endian (as Java's BigInteger).

    A batch of ints that all fit into 64 bits becomes a :class:`LongCodec` column.
    """

    name = "bigint"
    arrow_type = pa.large_binary()
    _python_type = int

    def _to(self, value: Any) -> Any:
        return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)

    def _from(self, data: Any) -> Any:
        return int.from_bytes(data, "big", signed=True)

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        if not exact and kinds_of(values) <= {int, NONE}:
            try:
                return LongCodec(), pa.array(values, LongCodec.arrow_type)
            except (OverflowError, pa.ArrowInvalid):
                pass  # some are larger: handled below
        return super()._encode(values, exact=exact)

    def _normalise(self, value: Any) -> Any:
        return int(index(value))


class BigDecimalCodec(_MappedCodec):
    """large_string: Decimals of any scale, exactly, in their text form."""

    name = "decimal"
    arrow_type = pa.large_string()
    _python_type = Decimal

    def _to(self, value: Any) -> Any:
        return Decimal.__str__(value)

    def _from(self, data: Any) -> Any:
        return Decimal(data)


class UuidCodec(_MappedCodec):
    """large_binary: the 16 bytes of a UUID."""

    name = "uuid"
    arrow_type = pa.large_binary()
    _python_type = UUID

    def _to(self, value: Any) -> Any:
        return value.bytes

    def _from(self, data: Any) -> Any:
        return UUID(bytes=data)


class NullCodec(ColumnCodec):
    """null: a column that contains only None."""

    name = "null"
    arrow_type = pa.null()

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        if not kinds_of(values) <= {NONE}:
            refuse(values, "None", lambda value: False)
        return self, pa.nulls(len(values))

    def decode(self, array: Any) -> list[Any]:
        return [None] * len(array)
