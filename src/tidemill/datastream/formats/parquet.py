"""Reading and bulk writing of Parquet files, by columns or with Avro schemas."""

from __future__ import annotations

from tidemill.connectors.formats.avro_files import (
    AvroParquetReaders,
    AvroParquetWriters,
)
from tidemill.connectors.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        "AvroSchema": "tidemill.connectors.formats.avro_schema",
        **dict.fromkeys(("BulkFormat", "RowDataBulkWriterFactory", "StreamFormat"), "tidemill.connectors.file_system"),
        "BulkWriterFactory": "tidemill.common.serialization",
        "Configuration": "tidemill.common.configuration",
        "RowType": "tidemill.table.types",
    },
)
