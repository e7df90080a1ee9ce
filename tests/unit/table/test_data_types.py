"""Flink's column types: a PyFlink program's schema of files means the same here."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tidemill.common import Configuration, Row
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink
from tidemill.datastream.formats.csv import CsvSchema
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.errors import GraphError
from tidemill.table import DataType, DataTypes

FIELD, ROW = DataTypes.FIELD, DataTypes.ROW


@pytest.mark.parametrize(
    ("kind", "ddl"),
    [
        (DataTypes.BOOLEAN(), "BOOLEAN"),
        (DataTypes.TINYINT(), "TINYINT"),
        (DataTypes.SMALLINT(), "SMALLINT"),
        (DataTypes.INT(), "INT"),
        (DataTypes.BIGINT(), "BIGINT"),
        (DataTypes.FLOAT(), "FLOAT"),
        (DataTypes.DOUBLE(), "DOUBLE"),
        (DataTypes.CHAR(3), "STRING"),
        (DataTypes.VARCHAR(3), "STRING"),
        (DataTypes.STRING(), "STRING"),
        (DataTypes.BINARY(3), "BINARY"),
        (DataTypes.VARBINARY(3), "BINARY"),
        (DataTypes.BYTES(), "BINARY"),
        (DataTypes.DECIMAL(10, 2), "DECIMAL(10,2)"),
        (DataTypes.DATE(), "DATE"),
        (DataTypes.TIMESTAMP(3), "TIMESTAMP_NTZ"),
        (DataTypes.TIMESTAMP_LTZ(3), "TIMESTAMP"),
        (DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(), "TIMESTAMP"),
        (DataTypes.ARRAY(DataTypes.INT()), "ARRAY<INT>"),
        (DataTypes.MAP(DataTypes.STRING(), DataTypes.DOUBLE()), "MAP<STRING, DOUBLE>"),
        (ROW([FIELD("x", DataTypes.INT()), FIELD("y", DataTypes.STRING())]), "STRUCT<x: INT, y: STRING>"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_type_has_its_counterpart(kind: DataType, ddl: str) -> None:
    assert schema_of(ROW([FIELD("a", kind)])) == schema_of(f"a {ddl}")


def test_a_column_that_always_has_a_value() -> None:
    columns = [FIELD("a", DataTypes.INT(nullable=False)), FIELD("b", DataTypes.INT().not_null())]
    assert schema_of(ROW(columns)) == schema_of("a INT NOT NULL, b INT NOT NULL")
    assert schema_of(ROW([FIELD("a", DataTypes.INT(False).nullable())])) == schema_of("a INT")


def test_a_single_type_is_a_single_column() -> None:
    assert schema_of(DataTypes.BIGINT()) == schema_of("value BIGINT")
    price = CsvSchema.builder().add_number_column("price", number_type=DataTypes.DECIMAL(5, 2)).build()
    assert price.struct == schema_of("price DECIMAL(5,2)")
    with pytest.raises(GraphError, match="a CSV file cannot contain"):
        CsvSchema.builder().add_number_column("row", number_type=DataTypes.ARRAY(DataTypes.INT()))


def test_parquet_as_pyflink_programs_write_it(tmp_path: Path) -> None:
    row_type = ROW([FIELD("name", DataTypes.STRING()), FIELD("age", DataTypes.INT())])
    sink = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type(row_type))
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("execution.target", "local"))
    env.set_parallelism(1)
    bucket = BucketAssigner.base_path_bucket_assigner()
    env.from_collection([Row(name="Ada", age=36)]).sink_to(sink.with_bucket_assigner(bucket).build())
    env.execute()
    (file,) = tmp_path.glob("part-*")
    assert pq.read_table(file).to_pylist() == [{"name": "Ada", "age": 36}]
