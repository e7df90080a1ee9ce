"""The sink to Spark's writers: each epoch is written once, however often it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.jobs import environment
from tidemill.datastream.connectors.spark import SparkSink
from tidemill.errors import GraphError, JobExecutionError
from tidemill.testing.sink_contract import SINK_CASES, SinkCase, check_sink

pytestmark = pytest.mark.usefixtures("spark")

#: Those in which a Spark sink has to do what others need not: the rest is the write-ahead log's, and tested there.
TELLING = (
    "epochs come one after the other",
    "killed in a commit after 1 subtasks",
    "killed at sink.commit.after",
    "committed late, 1 subtasks before",
    "begun again with an empty directory",
)
each_telling_case = pytest.mark.parametrize("case", [case for case in SINK_CASES if case.name in TELLING], ids=str)


def test_the_cases_are_there() -> None:
    assert {case.name for case in SINK_CASES} >= set(TELLING)


@each_telling_case
def test_files(case: SinkCase, spark: SparkSession, tmp_path: Path) -> None:
    def visible() -> Iterator[str]:
        for path in tmp_path.rglob("[!._]*.txt"):
            if not any(part.startswith("_") for part in path.parts):
                yield from path.read_text(encoding="utf-8").split()

    sink = SparkSink.for_format("text", "value STRING").save(str(tmp_path))
    check_sink(case, lambda: sink, visible, left=lambda: tmp_path.glob("_*"))


@each_telling_case
def test_a_function_that_keeps_epochs_by_their_number(case: SinkCase, spark: SparkSession) -> None:
    kept: dict[tuple[int, str], list[str]] = {}

    def keep(frame: DataFrame, epoch: int) -> None:
        rows = [row.value for row in frame.collect()]
        kept[epoch, min(rows)] = rows

    sink = SparkSink.for_each_epoch(keep, "value STRING", idempotent=True)
    check_sink(case, lambda: sink, lambda: [row for rows in kept.values() for row in rows])


def test_parquet_in_partitions(spark: SparkSession, tmp_path: Path) -> None:
    sink = SparkSink.for_format("parquet", "id LONG, parity STRING").partition_by("parity")
    env = environment({"execution.epoch.max-records": "60"})
    env.from_sequence(1, 100).map(lambda n: (n, "odd" if n % 2 else "even")).sink_to(sink.save(str(tmp_path / "out")))
    env.execute("parquet")
    frame = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.id for row in frame.collect()) == list(range(1, 101))
    assert frame.where("parity = 'odd'").count() == 50
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["parity=even", "parity=odd"]


def test_a_table_with_an_epoch_column_takes_each_epoch_once(spark: SparkSession, tmp_path: Path) -> None:
    builder = SparkSink.for_format("parquet", "id LONG").option("path", str(tmp_path / "table"))
    sink = builder.save_as_table("epochs_once", epoch_column="epoch")
    assert sink.guarantee == "exactly-once"
    try:
        (case,) = (case for case in SINK_CASES if case.name == "killed at sink.commit.after")
        check_sink(case, lambda: sink, lambda: _ids(spark, "epochs_once"), record=int)
        assert spark.table("epochs_once").columns == ["id", "epoch"]
    finally:
        spark.sql("DROP TABLE IF EXISTS epochs_once")


def _ids(spark: SparkSession, table: str) -> list[int]:
    if not spark.catalog.tableExists(table):
        return []
    spark.catalog.refreshTable(table)
    return [row.id for row in spark.table(table).collect()]


def test_wrong_settings() -> None:
    builder = SparkSink.for_format("parquet", "id LONG")
    with pytest.raises(GraphError, match="no nought, only id"):
        builder.partition_by("nought")
    with pytest.raises(GraphError, match="needs a path"):
        builder.save()
    with pytest.raises(GraphError, match="already a column of the schema"):
        builder.save_as_table("t", epoch_column="id")
    secret: Any = SparkSink.for_format("jdbc", "id LONG").option("password", "open sesame").save()
    assert secret.guarantee == "at-least-once"
    assert "sesame" not in repr(secret.target)


def test_a_format_that_spark_does_not_know_is_refused_before_anything_is_committed(tmp_path: Path) -> None:
    env = environment()
    env.from_sequence(1, 3).sink_to(SparkSink.for_format("parqet", "id LONG").save(str(tmp_path)))
    with pytest.raises(GraphError, match=r"has no format 'parqet'.*spark\.jars\.packages"):
        env.execute("misspelt")


def test_a_write_that_spark_refuses_names_the_sink_and_the_epoch(tmp_path: Path) -> None:
    env = environment()
    sink = SparkSink.for_format("parquet", "id LONG").option("compression", "zip").save(str(tmp_path / "out"))
    env.from_sequence(1, 3).sink_to(sink).uid("numbers")
    with pytest.raises(JobExecutionError, match=r"could not write epoch 1 of sink 'numbers' to .*out: .*codec zip"):
        env.execute("zipped")
