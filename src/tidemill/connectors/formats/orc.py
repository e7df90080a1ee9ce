"""Bulk writers for ORC files."""

from __future__ import annotations

from typing import Any

from tidemill.common.serialization import BulkWriterFactory
from tidemill.connectors.file_system.columnar import OrcWriterFactory
from tidemill.connectors.spark.type_mapping import schema_of

__all__ = ["OrcBulkWriters"]


class OrcBulkWriters:
    """Writers of ORC files, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_row_type(
        row_type: Any, writer_properties: Any = None, hadoop_config: Any = None, compression: str = "zlib"
    ) -> BulkWriterFactory[Any]:
        """Create a factory of writers for a row type: ``Types.ROW_NAMED(...)``, Spark's DDL or a ``StructType``.

        ``compression``, which is not in PyFlink, is ``zlib``, ``snappy``, ``lz4``, ``zstd`` or ``uncompressed``.

        >>> import io, pyarrow.orc
        >>> file = io.BytesIO()
        >>> writer = OrcBulkWriters.for_row_type("id LONG, name STRING").create(file)
        >>> writer.add_element((1, "a"))
        >>> writer.finish()
        >>> pyarrow.orc.read_table(file).to_pylist()
        [{'id': 1, 'name': 'a'}]
        """
        return OrcWriterFactory(schema_of(row_type), compression)
