"""Bounded sources that Spark reads, with checkpoints in an object store: the rows are kept there, and stay the same."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.object_store import BUCKET, Proxy, Server
from tests.spark.test_dataframes import EVERYTHING, ROWS
from tests.waiting import eventually
from tidemill.checkpoint.names import INPUT, input_name
from tidemill.checkpoint.storage.storages import LocalStorage, ObjectStorage, Storage
from tidemill.common import Configuration, Encoder, JobClient, Types
from tidemill.connectors.sources import DataFrameSource, Split
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSink
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import CheckpointError, GraphError, JobExecutionError, TypeMismatchError, UserCodeError
from tidemill.spark.bounded.parquet_input import ParquetSource, materialise
from tidemill.spark.frames.source_reader import DataFrameSourceReader

SECONDS = 60
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def store(server: Server) -> ObjectStorage:
    return ObjectStorage(f"s3://{BUCKET}/{uuid.uuid4()}", server.options)


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before = {key: str(spark.conf.get(key)) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def zone_at_task(item: int) -> tuple[str | None]:
    task = TaskContext.get()
    return (None if task is None else task.getLocalProperty(ZONE),)


def rows_of(storage: Storage, folder: str) -> pa.Table:
    """What workers get to see."""
    source = ParquetSource(storage, folder, None)
    dealt = source.create_enumerator(None).next_splits(1, 10**9)
    return pa.Table.from_batches(
        [rows for split in dealt if isinstance(split, Split) for rows in source.read(split)]
    ).replace_schema_metadata(None)


def test_rows_have_the_types_and_values_that_they_have_in_a_directory(
    spark: SparkSession, store: ObjectStorage, tmp_path: Path
) -> None:
    local = LocalStorage(tmp_path)
    with settings(spark, {ZONE: "America/New_York"}):
        everything = spark.createDataFrame(ROWS, EVERYTHING).orderBy("id")
        odd = spark.range(2).selectExpr(
            "id AS `a.b`", "array(id) AS list", "map('x', id) AS map", "named_struct('x', id, 'y', array('')) AS st"
        )
        moments = spark.sql("SELECT TIMESTAMP'0001-01-01 00:00:00' AS t, array(TIMESTAMP'9990-12-31 23:59:59') AS ts")
        # Not only the plan follows the session's settings, but also what tasks look up.
        seen = spark.createDataFrame(spark.sparkContext.parallelize([0], 1).map(zone_at_task), "zone STRING")
        for name, frame in (("everything", everything), ("odd", odd), ("moments", moments), ("seen", seen)):
            dataframe = partial(DataFrameSourceReader(DataFrameSource(frame)).frame, spark)
            theirs = rows_of(local, materialise(dataframe, local, name))
            for large in ("false", "true"):
                with settings(spark, {"spark.sql.execution.arrow.useLargeVarTypes": large}):
                    ours = rows_of(store, materialise(dataframe, store, name + large))
                assert ours.schema.names == theirs.schema.names == frame.columns
                assert [str(kind) for kind in ours.schema.types] == [str(kind) for kind in theirs.schema.types]
                assert str(ours.to_pylist()) == str(theirs.to_pylist()), "as text, in which NaN is NaN"
                assert name != "seen" or ours.to_pylist() == [{"zone": "America/New_York"}]
    assert spark.sparkContext.getLocalProperty(ZONE) is None, "as before"


def test_what_fails_while_rows_are_written_is_reported(
    spark: SparkSession, server: Server, store: ObjectStorage
) -> None:
    broken = spark.range(3).selectExpr("10 DIV (id - 1) AS n")
    with pytest.raises(JobExecutionError, match=r"could not read the source '[^']+' \(uid rows(.|\n)*DIVIDE_BY_ZERO"):
        materialise(lambda: broken, store, "rows")
    with pytest.raises(GraphError, match="a DataFrame without columns"):
        materialise(lambda: spark.range(3).select(), store, "rows")
    nothing = materialise(lambda: spark.range(0), store, "nothing")
    assert ParquetSource(store, nothing, None).create_enumerator(None).finished
    missing = ObjectStorage(f"s3://nowhere-{uuid.uuid4()}/x", server.options)
    with pytest.raises(CheckpointError, match="the bucket does not exist"):
        materialise(lambda: spark.range(3), missing, "rows")
    with Proxy(server) as proxy:
        proxy.trouble = lambda number, method, path: "403" if method == "PUT" else None
        refused = ObjectStorage(f"s3://{BUCKET}/{uuid.uuid4()}", proxy.options)
        with pytest.raises(CheckpointError, match="the store refused access"):
            materialise(lambda: spark.range(3), refused, "rows")
        proxy.trouble = lambda number, method, path: "cut" if number % 3 == 0 else None
        refused.write(input_name("rows", "earlier/part-00000.parquet"), b"")
        folder = materialise(lambda: spark.range(0, 10, 1, 2), refused, "rows")
        assert rows_of(refused, folder).column("id").to_pylist() == list(range(10)), "requests were sent again"
        assert materialise(lambda: spark.range(3), refused, "rows") == folder
        assert len(refused.list(INPUT)) == 4, "two files, their index and the marker; nothing of an earlier start"


def test_a_record_of_a_file_that_does_not_fit_is_shown(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_text('{"id": 1}\n{"id": "secret"}\n')
    options = {f"s3.{key}": value for key, value in server.options.items()}
    configuration = {"execution.checkpointing.dir": f"s3://{BUCKET}/{uuid.uuid4()}", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    env.read_json(str(tmp_path / "orders.json"), "id LONG").uid("orders").print()
    with pytest.raises(TypeMismatchError, match=r"orders\.json has a record that does not fit the schema: field 'id'"):
        env.execute("orders")


class Numbered(KeyedProcessFunction):
    """Each record with how many of its key have come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value[0]}:{count}:{value[1]}"


class Job:
    """Numbers the rows of a frame by key; each partition of it, of ten rows, is an epoch."""

    def __init__(self, server: Server, out: Path) -> None:
        self._options = {f"s3.{key}": value for key, value in server.options.items()}
        self._out = out

    def start(self, frame: DataFrame, place: str, careful: Any = lambda row: row, **more: str) -> JobClient:
        options = {
            "execution.job-id": "rows",
            "execution.checkpointing.dir": place,
            "execution.epoch.max-records": "10",
            "parallelism.default": "2",
            "pipeline.max-parallelism": "8",
            **self._options,
            **more,
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        sink = FileSink.for_row_format(str(self._out), Encoder.simple_string_encoder()).build()
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        rows = env.from_dataframe(frame, pair).uid("rows").map(careful, pair)
        numbered = rows.key_by(lambda row: row[0] % 3, Types.LONG()).process(Numbered(), Types.STRING())
        numbered.uid("numbered").sink_to(sink).uid("sink")
        return env.execute_async("rows")

    def seen(self) -> list[list[int]]:
        """(id, number, mark) of all that was committed."""
        parts = [part for part in self._out.rglob("*") if part.is_file() and not part.name.startswith(".")]
        lines = [line for part in parts for line in part.read_text().splitlines()]
        return sorted([int(word) for word in line.split(":")] for line in lines)

    def check(self, total: int, mark: int) -> None:
        """Every row of the frame with this mark once, and no number of a key twice."""
        seen = self.seen()
        assert [(row[0], row[2]) for row in seen] == [(number, mark) for number in range(total)]
        for key in range(3):
            numbers = sorted(row[1] for row in seen if row[0] % 3 == key)
            assert numbers == list(range(1, len(numbers) + 1))


def marked(spark: SparkSession, mark: int, partitions: int) -> DataFrame:
    """Ten rows for each partition; the mark tells rows of one frame from those of another."""
    return spark.range(0, 10 * partitions, 1, partitions).selectExpr("id", f"{mark}L AS mark")


def test_a_job_whose_worker_is_killed_and_that_fails_resumes_with_the_same_rows(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    obstacle, killed = tmp_path / "obstacle", tmp_path / "killed"
    obstacle.touch()

    def careful(row: Any) -> Any:
        if row[0] == 15 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if row[0] == 35 and obstacle.exists():
            raise ValueError("not yet")
        return row

    job, place = Job(server, tmp_path / "out"), f"s3://{BUCKET}/{uuid.uuid4()}"
    with pytest.raises(UserCodeError, match="not yet"):
        job.start(marked(spark, 7, 5), place, careful).get_job_execution_result().result(SECONDS)
    assert killed.exists()
    storage = ObjectStorage(f"{place}/rows", server.options)
    assert len([name for name in storage.list(INPUT) if name.endswith(".parquet")]) == 5
    obstacle.unlink()
    # A frame gives no promise: by now it has other rows.
    job.start(marked(spark, 8, 3), place, careful).get_job_execution_result().result(SECONDS)
    job.check(50, 7)
    assert storage.list(INPUT) == [], "nobody needs it any more"


def test_savepoints_take_the_rows_to_a_directory_and_back_to_a_store(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    job, place = Job(server, tmp_path / "out"), f"s3://{BUCKET}/{uuid.uuid4()}"
    resting = {"execution.epoch.min-interval": "10 min"}
    first = job.start(marked(spark, 1, 3), place, **resting)
    eventually(lambda: len(job.seen()) == 10)
    saved = first.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)
    restored = {"execution.state-recovery.path": saved}
    second = job.start(marked(spark, 2, 1), str(tmp_path / "checkpoints"), **resting, **restored)
    eventually(lambda: len(job.seen()) == 20)
    saved = second.stop_with_savepoint(False, f"{place}/saved").result(SECONDS)
    restored = {"execution.state-recovery.path": saved, "execution.job-id": "again"}
    job.start(marked(spark, 3, 1), place, **restored).get_job_execution_result().result(SECONDS)
    job.check(30, 1)
