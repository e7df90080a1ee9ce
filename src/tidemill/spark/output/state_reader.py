"""DataFrames of tables that the executors read themselves.

They use Spark's Python data source API, which accepts Arrow batches from the workers without conversion.
(``mapInArrow`` would work too, but needs pandas.)
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol
from weakref import WeakSet

import cloudpickle
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

_BATCH_ROWS: Final = 10_000
_registered: WeakSet[SparkSession] = WeakSet()
_lock = threading.Lock()


class TablePart(Protocol):
    """The part of a table that one task reads. It is pickled on the driver."""

    def table(self) -> Any:
        """Return its rows as an Arrow table."""


def frame_of_parts(session: SparkSession, schema: pa.Schema, parts: Sequence[TablePart]) -> DataFrame:
    """Return a DataFrame with a partition for each part, which is read by the task that computes the partition.

    Spark has no type for columns that contain only nulls: they become strings.
    """
    with _lock:
        if session not in _registered:
            session.dataSource.register(_PartsSource)
            _registered.add(session)
    payload = base64.b64encode(cloudpickle.dumps((_for_spark(schema), list(parts)))).decode()
    return session.read.format(_PartsSource.name()).option("parts", payload).load()


class _PartsSource(DataSource):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._schema, self._parts = cloudpickle.loads(base64.b64decode(options["parts"]))

    @classmethod
    def name(cls) -> str:
        return "tidemill_parts"

    def schema(self) -> StructType:
        return from_arrow_schema(self._schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _PartsReader(to_arrow_schema(schema, timezone="UTC"), self._parts)


class _PartsReader(DataSourceReader):
    def __init__(self, schema: pa.Schema, parts: list[TablePart]) -> None:
        self._schema = schema
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(len(self._parts))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        table = self._parts[partition.value].table().cast(self._schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)


def _for_spark(schema: pa.Schema) -> pa.Schema:
    """Convert the types of a schema to types that Spark supports."""
    return pa.schema([pa.field(field.name, _type_for_spark(field.type)) for field in schema])


def _type_for_spark(kind: Any) -> Any:
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _type_for_spark(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_type_for_spark(kind.key_type), _type_for_spark(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.list_(_type_for_spark(kind.value_type))
    return kind
