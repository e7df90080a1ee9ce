"""Streams as DataFrames and DataFrames as streams: no value changes on the way, and SQL works on either side."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tests.spark.jobs import add_file, collected, durable, environment
from tests.thorough import examples
from tests.unit.connectors.test_spark_types import atoms, schemas
from tests.waiting import eventually
from tidemill.common import Row, Types
from tidemill.connectors.spark.schema_types import StructOf
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import GraphError, TypeMismatchError

pytestmark = pytest.mark.usefixtures("spark")

EVERYTHING = """
    id INT, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i64 BIGINT, f FLOAT, d DOUBLE, s STRING, bin BINARY,
    dec DECIMAL(38,18), small DECIMAL(5,2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ,
    list ARRAY<TIMESTAMP>, map MAP<STRING, DECIMAL(10,2)>, nested STRUCT<x: INT, y: ARRAY<STRUCT<z: TIMESTAMP_NTZ>>>
"""
NAIVE = dt.datetime(2024, 3, 10, 2, 30, 0, 7)  # noqa: DTZ001 - of no zone; an hour that New York skips
#: The hour that New York has twice.
TWICE = [dt.datetime(2024, 11, 3, hour, 30, 0, 1, tzinfo=dt.timezone.utc) for hour in (5, 6)]
ROWS: list[tuple[Any, ...]] = [
    (
        *(1, True, -128, 32767, -(1 << 63), 0.5, math.nan, "", b"\0\xff"),
        *(Decimal("12345678901234567890.123456789012345678"), Decimal("-0.01"), dt.date(1, 1, 1), TWICE[0], NAIVE),
        *([TWICE[0], None, TWICE[1]], {"a": Decimal("1.25"), "b": None}, (1, [(NAIVE,), None])),
    ),
    (
        *(2, False, 127, -32768, (1 << 63) - 1, -0.0, -math.inf, "ä€😀\n", b""),
        *(Decimal("-0.000000000000000001"), Decimal("999.99"), dt.date(9999, 12, 31), TWICE[1], NAIVE),
        *([], {}, (None, [])),
    ),
    (3, *[None] * 16),
]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas(atoms()))
def test_spark_reads_our_schemas_as_we_mean_them(schema: StructOf) -> None:
    assert schema_of(StructType.fromDDL(schema.ddl())) == schema


def test_every_type_goes_through_a_stream_and_back_without_loss(spark: SparkSession, tmp_path: Path) -> None:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = environment().from_collection(ROWS).to_dataframe(EVERYTHING, path=str(tmp_path))
        # Through a keyed exchange too, so that values are encoded as records and not only as columns.
        again = environment().from_dataframe(frame).key_by(lambda row: row.id).map(lambda row: row)
        back = again.to_dataframe(frame.schema)
        assert schema_of(back.schema) == schema_of(EVERYTHING)
        shown = frame.orderBy("id").selectExpr("to_json(struct(*))", "hex(bin)").collect()
        assert back.orderBy("id").selectExpr("to_json(struct(*))", "hex(bin)").collect() == shown
        found = back.orderBy("id").toArrow().to_pylist()
        # A streaming DataFrame comes to the workers by another way.
        endless = spark.readStream.schema(frame.schema).parquet(str(tmp_path))
        with environment().from_dataframe(endless).execute_and_collect() as results:
            streamed = sorted((next(results) for _ in ROWS), key=lambda row: int(row.id))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [row.at.tzname() for row in streamed[:2]] == ["UTC", "UTC"]
    assert [[row.dec, row.day, row.at, row.local, row.list, row.s, row.bin] for row in streamed] == [
        [row["dec"], row["day"], row["at"], row["local"], row["list"], row["s"], row["bin"]] for row in found
    ]
    assert streamed[0].nested == {"x": 1, "y": [{"z": NAIVE}, None]}
    assert streamed[0].map == {"a": Decimal("1.25"), "b": None}
    assert math.isnan(found[0]["d"])
    assert (found[0]["dec"], found[1]["dec"]) == (ROWS[0][9], ROWS[1][9])
    assert [row["at"] for row in found] == [*TWICE, None]
    assert found[0]["list"] == [TWICE[0], None, TWICE[1]]
    assert (found[0]["local"], found[0]["nested"]) == (NAIVE, {"x": 1, "y": [{"z": NAIVE}, None]})
    assert (found[0]["s"], found[1]["s"], found[1]["bin"], found[0]["map"]) == (
        *("", "ä€😀\n", b""),
        [("a", Decimal("1.25")), ("b", None)],
    )
    assert [value for value in found[2].values() if value is not None] == [3]


def test_a_bounded_stream_is_a_dataframe_for_sql(spark: SparkSession) -> None:
    env = environment({"execution.epoch.max-records": "100"})
    pair = Types.ROW_NAMED(["parity", "n"], [Types.STRING(), Types.LONG()])
    rows = env.from_sequence(1, 1000).map(lambda n: Row(parity="odd" if n % 2 else "even", n=n), pair)
    rows.to_dataframe().createOrReplaceTempView("numbers")
    sums = spark.sql("SELECT parity, sum(n) AS total FROM numbers GROUP BY parity ORDER BY parity").collect()
    assert [tuple(row) for row in sums] == [("even", 250500), ("odd", 250000)]
    assert spark.sql("SELECT n FROM numbers").distinct().count() == 1000


def test_an_unbounded_stream_is_a_streaming_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    env = environment(durable(tmp_path / "checkpoints"))
    words = env.read_json(str(source), "word STRING", watch=True).map(lambda row: (row.word, len(row.word)))
    frame = words.to_dataframe("word STRING, length INT", path=str(tmp_path / "out"))
    assert frame.isStreaming
    frame.createOrReplaceTempView("words")
    longest = spark.sql("SELECT word FROM words WHERE length > 3")
    client = env.execute_async("words")
    query = longest.writeStream.format("memory").queryName("longest").start()
    try:
        for name, word in (("1", "stream"), ("2", "to"), ("3", "batch")):
            add_file(source / f"{name}.json", f'{{"word": "{word}"}}\n')
        eventually(lambda: sorted(row.word for row in spark.table("longest").collect()) == ["batch", "stream"])
    finally:
        query.stop()
        client.cancel().result(60)


@pytest.mark.parametrize("value", ["INTERVAL '1' DAY", "INTERVAL '1' YEAR", "parse_json('{}')"])
def test_columns_that_no_record_can_hold_are_refused_by_name(spark: SparkSession, value: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {value} AS odd")
    with pytest.raises(GraphError, match=r"column 'odd'.*Cast the column"):
        collected(environment().from_dataframe(frame))


def test_a_stream_of_unknown_type_needs_a_schema() -> None:
    stream = environment().from_sequence(1, 3).map(lambda n: (n, n))
    with pytest.raises(GraphError, match="needs a schema, such as 'id LONG, name STRING'"):
        stream.to_dataframe()


def test_a_record_that_does_not_fit_fails_the_job_and_is_shown() -> None:
    stream = environment().from_collection([(1, "a"), ("x", "b")])
    with pytest.raises(TypeMismatchError, match=r"column 'id' is BIGINT, which 'x' does not fit.*\('x', 'b'\)"):
        stream.to_dataframe("id LONG, name STRING")
