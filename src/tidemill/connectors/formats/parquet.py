"""A columnar input format and bulk writers for Parquet files."""

from __future__ import annotations

from typing import Any

from tidemill.common.serialization import BulkWriterFactory
from tidemill.connectors.file_system.columnar import ParquetWriterFactory
from tidemill.connectors.file_system.source import BulkFormat
from tidemill.connectors.spark.type_mapping import schema_of

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads the columns of a row type from Parquet files, as rows.

    ``row_type`` is ``Types.ROW_NAMED(...)``, Spark's DDL or a ``StructType``. Columns that are missing in a file are
    None. A column of another type is an error that names the file.

    >>> from tidemill.datastream.connectors.file_system import FileSource
    >>> rows = ParquetColumnarRowInputFormat("id LONG, amount DECIMAL(10, 2)")
    >>> FileSource.for_bulk_file_format(rows, "/data/orders").build().schema
    '`id` BIGINT, `amount` DECIMAL(10,2)'
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        """Create the format. All arguments except the row type are ignored: Spark chooses these settings itself."""
        super().__init__("parquet", schema=schema_of(row_type).ddl())


class ParquetBulkWriters:
    """Writers of Parquet files, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_row_type(
        row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = False, compression: str = "snappy"
    ) -> BulkWriterFactory[Any]:
        """Create a factory of writers for records of a row type: rows, tuples, dicts or dataclasses.

        ``row_type`` is ``Types.ROW_NAMED(...)``, Spark's DDL or a ``StructType``. ``compression``, which is not in
        PyFlink, is ``snappy``, ``gzip``, ``zstd``, ``lz4``, ``brotli`` or ``none``.

        >>> import io, pyarrow.parquet
        >>> file = io.BytesIO()
        >>> writer = ParquetBulkWriters.for_row_type("id LONG, name STRING", compression="zstd").create(file)
        >>> writer.add_element((1, "a"))
        >>> writer.finish()
        >>> pyarrow.parquet.read_table(file).to_pylist()
        [{'id': 1, 'name': 'a'}]
        """
        return ParquetWriterFactory(schema_of(row_type), compression)
