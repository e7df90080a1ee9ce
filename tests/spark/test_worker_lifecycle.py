"""What a worker keeps between epochs, and that it makes no difference whether it kept anything."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.spark.committed import committed_state
from tests.spark.jobs import add_file, durable, environment
from tests.spark.recovery import visible
from tests.spark.test_shapes import files
from tests.thorough import WHEN_THOROUGH
from tests.waiting import eventually
from tidemill.common import Types
from tidemill.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext, SinkFunction
from tidemill.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tidemill.runtime.driver.job import RunningJob

pytestmark = pytest.mark.usefixtures("spark")


class Noted(KeyedProcessFunction):
    """Leaves a line in a file named after the process and subtask, for each open() and close()."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        self.name = f"{os.getpid()}-{runtime_context.get_index_of_this_subtask()}"
        self.note("open")

    def close(self) -> None:
        self.note("close")

    def note(self, what: str) -> None:
        with (Path(self.folder) / self.name).open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.put(count % 4, value)
        yield f"{value} {count} {sorted(self.seen.items())}"


def run(folder: Path, epochs: int = 20) -> None:
    (folder / "notes").mkdir(parents=True)
    env = environment({**durable(folder / "checkpoints"), "execution.epoch.max-records": "10"})
    counts = env.from_collection(list(range(10 * epochs))).key_by(lambda n: n % 7).process(Noted(folder / "notes"))
    counts.uid("noted").sink_to(files(folder / "out")).uid("sink")
    env.execute("noted")


def test_functions_are_opened_once_per_worker_and_subtask(tmp_path: Path) -> None:
    run(tmp_path)
    notes = {path.name: path.read_text().split() for path in (tmp_path / "notes").iterdir()}
    assert notes.keys()
    assert all(lines == ["open", "close"] for lines in notes.values()), notes
    assert Counter(name.partition("-")[2] for name in notes) == {"0": 1, "1": 1}, "a subtask keeps to its worker"


@contextmanager
def workers_not_reused(spark: SparkSession) -> Iterator[None]:
    """Every task gets a Python process of its own, so that every epoch starts cold."""
    context: Any = spark.sparkContext
    configuration = context._jsc.sc().conf()
    configuration.set("spark.python.worker.reuse", "false")
    try:
        yield
    finally:
        configuration.set("spark.python.worker.reuse", "true")


def test_cold_workers_give_the_same_result_as_warm_ones(spark: SparkSession, tmp_path: Path) -> None:
    run(tmp_path / "warm", epochs=4)
    with workers_not_reused(spark):
        run(tmp_path / "cold", epochs=4)
    opened = [path.read_text().count("open") for path in (tmp_path / "cold" / "notes").iterdir()]
    assert sum(opened) >= 8, "the workers were warm"
    assert visible(tmp_path / "cold" / "out") == visible(tmp_path / "warm" / "out")
    assert committed_state(tmp_path / "cold" / "checkpoints" / "job") == committed_state(
        tmp_path / "warm" / "checkpoints" / "job"
    )


class Opened(MapFunction):
    """Leaves a file per subtask while it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.path = Path(self.folder) / str(runtime_context.get_index_of_this_subtask())
        self.path.touch()

    def close(self) -> None:
        self.path.unlink()

    def map(self, value: Any) -> Any:
        return value.value


def test_subtasks_that_narrower_batches_do_not_need_are_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tidemill.spark.jobs.engine._IDLE_SECONDS", 0.2)
    source, opened = tmp_path / "in", tmp_path / "opened"
    source.mkdir()
    opened.mkdir()
    for n in range(4):  # four small files make two partitions
        (source / f"{n}.txt").write_text(f"{n}\n")
    env = environment()
    with env.read_format("text", str(source), watch=True).map(Opened(opened)).execute_and_collect() as results:
        assert sorted(next(results) for _ in range(4)) == ["0", "1", "2", "3"]
        assert sorted(path.name for path in opened.iterdir()) == ["0", "1"]
        for n in (4, 5):
            time.sleep(0.3)
            add_file(source / f"{n}.txt", f"{n}\n")
            assert next(results) == str(n)
        assert [path.name for path in opened.iterdir()] == ["0"]
    assert list(opened.iterdir()) == []


class Nowhere(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


class Latest(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.last.update(value)
        ctx.timer_service().register_event_time_timer(value)
        yield value


def resident(spark: SparkSession) -> dict[str, int]:
    """Bytes that the driver and the largest Python worker hold."""
    gateway: Any = spark.sparkContext._gateway
    jvm = psutil.Process(gateway.proc.pid)
    workers = []
    for process in jvm.children(recursive=True):
        try:
            if "python" in process.name():
                workers.append(process.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return {"driver": psutil.Process().memory_info().rss, "worker": max(workers)}


@WHEN_THOROUGH  # otherwise without Spark: tests/integration/test_soak, and by epoch and kind of state, test_leaks
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_stays_flat_over_many_epochs(spark: SparkSession, tmp_path: Path) -> None:
    # After 200 epochs both have what they need. From then on a worker grows by 2 KB an epoch, which are the job's ten
    # timers; the driver comes and goes by a megabyte or two.
    early, stretch, most = 200, 1800, 12_000
    env = environment({**durable(tmp_path), "execution.epoch.max-records": "10"})
    numbers = env.from_sequence(1, 1_000_000_000).map(lambda n: n)  # without an end, as far as this test goes
    numbers.key_by(lambda n: n % 50).process(Latest()).uid("latest").add_sink(Nowhere()).uid("sink")
    client = env.execute_async("many epochs")
    assert isinstance(client, RunningJob)

    def epoch() -> int:
        assert not client.get_job_execution_result().done()
        return client.epochs[-1].epoch if client.epochs else 0

    def grows() -> bool:
        (first, before), (last, after) = seen[-2:]
        return any(after[process] - size >= most * (last - first) for process, size in before.items())

    def kept() -> int:
        return sum(len(files) for _, _, files in os.walk(tmp_path))

    eventually(lambda: epoch() >= early, seconds=300)
    seen = [(epoch(), resident(spark))]
    while len(seen) == 1 or (grows() and len(seen) < 4):  # what happens once is no leak: continue
        eventually(lambda: epoch() >= seen[-1][0] + stretch, seconds=600)
        seen.append((epoch(), resident(spark)))
    assert not grows(), f"bytes by epoch: {seen}"
    # Files go in the background, while the job runs.
    eventually(lambda: kept() < 300, what="fewer than 300 files", shown=kept)
    client.cancel().result(60)
