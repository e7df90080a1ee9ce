"""CSV files, and records as CSV lines."""

from __future__ import annotations

from tidemill.connectors.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(
            ("BulkWriterFactory", "DeserializationSchema", "SerializationSchema"), "tidemill.common.serialization"
        ),
        **dict.fromkeys(("RowDataBulkWriterFactory", "StreamFormat"), "tidemill.connectors.file_system"),
        **dict.fromkeys(("DataType", "DataTypes", "NumericType", "RowType"), "tidemill.table.types"),
        "TypeInformation": "tidemill.common.typeinfo",
    },
)
