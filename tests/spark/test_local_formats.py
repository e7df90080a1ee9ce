"""The local engine reads the same files as Spark with the same records, and refuses what it cannot read alike.

Single values of text formats, with nulls and errors, are compared with recordings: tests/unit/local/test_readings.py.
"""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import environment
from tidemill.common import Row
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSource, StreamFormat
from tidemill.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from tidemill.errors import ConfigurationError, TidemillError

ZONE = "Europe/Berlin"
LOCAL = {"execution.target": "local", "spark.sql.session.timeZone": ZONE}


@dataclass(frozen=True)
class Case:
    """Lines of a file that are read one by one, each as a file of its own, with a schema."""

    format: str
    schema: str
    lines: tuple[str, ...]


def csv(schema: str, *lines: str) -> Case:
    return Case("csv", schema, lines)


def json(kind: str, *values: str) -> Case:
    return Case("json", f"a {kind}", tuple(f'{{"a":{value}}}' for value in values))


#: What Spark accepts, and the local engine refuses with an error that says so.
ONLY_ON_SPARK = [
    csv("n DOUBLE", "0x1p3"),
    Case("json", "a LONG", ("{'a':1}",)),
    json("STRING", '{"x": 1}', "[1, 2]", '"\\ud800"'),
]


@pytest.fixture
def zone(spark: SparkSession) -> Any:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def of_spark(spark: SparkSession, case: Case, path: Path) -> list[Any]:
    """What Spark reads: records in order."""
    reader: Any = spark.read.format(case.format).option("mode", "FAILFAST").schema(case.schema)
    return [tuple(map(plain, row)) for row in reader.load(str(path)).collect()]


def records(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def plain(value: Any) -> Any:
    """A value in the form that both ways of reading can be compared in."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Row):
        return tuple(map(plain, value))
    if isinstance(value, float):
        return repr(value)
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def written(folder: Path, number: int, text: str | bytes) -> Path:
    path = folder / f"{number}.in"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_what_only_spark_accepts_is_an_error(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    for number, case in enumerate(ONLY_ON_SPARK):
        for line in case.lines:
            path = written(tmp_path, number, line)
            assert of_spark(spark, case, path)
            with pytest.raises(TidemillError):
                records(environment(LOCAL).read_format(case.format, str(path), case.schema, {"mode": "FAILFAST"}))


def test_columnar_files_are_read_alike(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    everything = (
        "select id, cast(id as int) i, cast(id as double)/3 d, cast(id/3 as decimal(10,2)) m, string(id) s, "
        "if(id % 2 = 0, null, binary(string(id))) b, date'2024-01-02' t, timestamp'2024-03-31 04:00:00' z, "
        "timestamp_ntz'2024-03-31 02:30:00' n, array(id, null) a, map('k', id) k, "
        "struct(id as x, string(id) as y) r from range(5)"
    )
    frame = spark.sql(everything)
    for form in ("parquet", "orc"):
        for name, schema in (("inferred", None), ("declared", "id LONG, i LONG, S STRING, missing DOUBLE")):
            if form == "orc" and schema is None:
                continue
            path = tmp_path / form
            chosen = frame if form == "parquet" else frame.drop("n")
            chosen.coalesce(1).write.mode("overwrite").format(form).save(str(path))
            both = [
                [tuple(map(plain, row)) for row in records(env.read_format(form, str(path), schema))]
                for env in (environment(LOCAL), environment())
            ]
            assert both[0] == both[1], (form, name)
    with pytest.raises(TidemillError, match="column 's' is string, but the schema requires int64"):
        records(environment(LOCAL).read_parquet(str(tmp_path / "parquet"), "s LONG"))
    legacy = tmp_path / "int96"
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        spark.sql("select timestamp'1600-01-01 00:00:00' z").coalesce(1).write.parquet(str(legacy))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", before or "INT96")
    ((moment,),) = records(environment(LOCAL).read_parquet(str(legacy)))
    ((other,),) = records(environment().read_parquet(str(legacy)))
    assert moment == other


def test_file_sources_and_compressed_files_are_read_alike(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header()
    schema.add_array_column("tags").add_column("price", "DECIMAL(10, 2)")
    built = schema.build()
    rows = [(1, 'a "b", c', ["x", "y"], Decimal("1.50")), (2, "", [], None), (3, None, None, Decimal("0.01"))]
    folder = tmp_path / "csv"
    (folder / "below").mkdir(parents=True)
    with (folder / "below" / "part.csv").open("wb") as file:
        writer = CsvBulkWriters.for_schema(built).create(file)
        for row in rows:
            writer.add_element(row)
        writer.finish()
    (folder / "_hidden").write_text("not read")
    texts = tmp_path / "text"
    texts.mkdir()
    (texts / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n") + gzip.compress(b"three\n"))
    (texts / "b.txt.bz2").write_bytes(bz2.compress(b"four\r\n"))

    def both(build: Callable[[StreamExecutionEnvironment], DataStream]) -> list[Any]:
        ours, theirs = (sorted(map(repr, records(build(env)))) for env in (environment(LOCAL), environment()))
        assert ours == theirs
        return ours

    def source(form: StreamFormat, *paths: Path) -> Callable[[StreamExecutionEnvironment], DataStream]:
        return lambda env: env.from_source(FileSource.for_record_stream_format(form, *paths).build(), None, "files")

    assert len(both(source(CsvReaderFormat.for_schema(built), folder / "below"))) == 3
    assert len(both(source(StreamFormat.text_line_format(), texts, folder / "below"))) == 8
    assert len(both(lambda env: env.read_text_file(str(texts / "{a,b}.*")))) == 4
    (texts / "c.txt.zst").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="cannot decompress"):
        records(environment(LOCAL).read_text_file(str(texts)))
