"""Column types with the names of Flink SQL, as used by PyFlink's file formats.

They have the same JSON form as Spark's types, so they are accepted wherever a schema is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["DataType", "DataTypes", "RowField"]


@dataclass(frozen=True)
class DataType:
    """The type of a column, created by :class:`DataTypes`."""

    _json: Any = field(repr=False)
    _nullable: bool = True

    def jsonValue(self) -> Any:
        """The type in Spark's JSON form. The method has the same name as in Spark."""
        return self._json

    def not_null(self) -> DataType:
        """The same type without null values."""
        return replace(self, _nullable=False)

    def nullable(self) -> DataType:
        """The same type with null values."""
        return replace(self, _nullable=True)


@dataclass(frozen=True)
class RowField:
    """The name and type of a column."""

    name: str
    data_type: DataType
    description: str | None = None


class DataTypes:
    """Creates column types with Flink's names.

    >>> from tidemill.datastream.formats.parquet import ParquetBulkWriters
    >>> order = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("day", DataTypes.DATE())])
    >>> writers = ParquetBulkWriters.for_row_type(order)

    Types that the supported file formats cannot store (TIME, INTERVAL, MULTISET) do not exist.
    """

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """Text; the length is not checked."""
        return DataType("string", nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """Text; the length is not checked."""
        return DataType("string", nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Text."""
        return DataType("string", nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """True or false."""
        return DataType("boolean", nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        """Bytes; the length is not checked."""
        return DataType("binary", nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """Bytes; the length is not checked."""
        return DataType("binary", nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Bytes."""
        return DataType("binary", nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """Decimals with ``precision`` digits, ``scale`` of them after the decimal point."""
        return DataType(f"decimal({precision},{scale})", nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """Integers of one byte."""
        return DataType("byte", nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """Integers of two bytes."""
        return DataType("short", nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """Integers of four bytes."""
        return DataType("integer", nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """Integers of eight bytes."""
        return DataType("long", nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """Floating point numbers of four bytes."""
        return DataType("float", nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """Floating point numbers of eight bytes."""
        return DataType("double", nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """Dates."""
        return DataType("date", nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """Date and time without a time zone, in microseconds regardless of the precision."""
        return DataType("timestamp_ntz", nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:
        """Points in time, in microseconds regardless of the precision."""
        return DataType("timestamp", nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        """Points in time, in microseconds regardless of the precision."""
        return DataType("timestamp", nullable)

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """Lists."""
        json = {"type": "array", "elementType": element_type._json, "containsNull": element_type._nullable}
        return DataType(json, nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """Dicts."""
        json = {"type": "map", "keyType": key_type._json, "valueType": value_type._json}
        return DataType({**json, "valueContainsNull": value_type._nullable}, nullable)

    @staticmethod
    def ROW(row_fields: Sequence[RowField] = (), nullable: bool = True) -> DataType:
        """Rows with the given columns."""
        fields = [
            {"name": one.name, "type": one.data_type._json, "nullable": one.data_type._nullable, "metadata": {}}
            for one in row_fields
        ]
        return DataType({"type": "struct", "fields": fields}, nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:
        """A column of a row."""
        return RowField(name, data_type, description)
