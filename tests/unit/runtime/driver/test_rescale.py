"""Jobs at another parallelism, live and from a checkpoint: output and state are those of a run that never changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from tidemill.checkpoint import restore
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.common import Configuration, Duration, JobStatus, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from tidemill.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from tidemill.datastream.state import ListStateDescriptor
from tidemill.errors import GraphError, TidemillError
from tidemill.faults import Fault
from tidemill.runtime.driver.job import RunningJob
from tidemill.runtime.task.warm import WarmChains
from tidemill.state.files.state_file import encode_sections
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving
from tidemill.testing.simulation.functions import Everything

Env = StreamExecutionEnvironment

KEYS = [f"k{number}" for number in range(17)]
STATES = ("last", "some", "seen", "most", "mean", "silent")
#: What each epoch reads: all keys, some of them often, with event time going on.
EPOCHS = [
    [(KEYS[(step * 5 + n) % (17 - step % 4)], 100 * step + 3 * n, 1000 * step + n) for n in range(40)]
    for step in range(11)
]
# Every key comes once more at the end: time is then equally far wherever it is read.
EPOCHS.append([(key, 5000, 100_000 + number) for number, key in enumerate(KEYS)])
WIDTHS = [1, 4, 3, 1, 4, 2, 6, 1]


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def timed(records: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10))
    return records.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Second()))


def everything(env: Env, records: DataStream) -> DataStream:
    # As wide as its source, and so in its chain: the records of a key stay in order.
    return (
        timed(records).set_parallelism(1).key_by(lambda r: r[0], Types.STRING()).process(Everything()).uid("everything")
    )


def result(job: JobHarness) -> Any:
    """All there is to compare: the output of each key in order, and every entry of every state and timer."""
    output: dict[Any, list[Any]] = {}
    for record in job.output():
        output.setdefault(record[:2], []).append(record)
    state = {name: job.state("everything", name) for name in STATES}
    return (
        output,
        {name: {key: _plain(value) for key, value in entries.items()} for name, entries in state.items()},
        (job.timers("everything")),
    )


def _plain(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def truth() -> Any:
    with JobHarness(everything, inputs=["records"], parallelism=2) as job:
        for records in EPOCHS:
            job.epoch(records=records)
        return result(job)


def subtasks(manifest: Manifest, uid: str = "everything") -> int:
    return manifest.parallelism[uid]


@pytest.mark.parametrize("live", [True, False], ids=["live", "from a checkpoint"])
@pytest.mark.parametrize("merge_after", [2, 100], ids=["snapshots", "deltas"])
def test_up_and_down_and_back(truth: Any, live: bool, merge_after: int) -> None:
    with JobHarness(everything, inputs=["records"], parallelism=2, merge_after=merge_after) as job:
        job.epoch(records=EPOCHS[0])
        for records, width in zip(EPOCHS[1:], itertools.cycle(WIDTHS)):
            if live:
                done = job.rescale(width)
                assert not done.done()
                job.epoch(records=records)
                assert done.done()
            else:
                job.restart(parallelism=width)
                job.epoch(records=records)
            assert subtasks(job.head) == width
        assert result(job) == truth


@pytest.mark.parametrize("placement", [None, moving(3)], ids=["workers keep their subtasks", "moving workers"])
def test_the_input_is_rescaled_too(truth: Any, placement: Any) -> None:
    def build(env: Env) -> DataStream:
        records = timed(env.from_source(ByKey(), None, "records").uid("records"))
        return records.key_by(lambda r: r[0], Types.STRING()).process(Everything()).uid("everything")

    with JobHarness(build, parallelism=2, workers=3, placement=placement) as job:
        for number in range(len(EPOCHS)):
            job.rescale(WIDTHS[number % len(WIDTHS)])
            job.epoch()
            assert subtasks(job.head, "records") == WIDTHS[number % len(WIDTHS)]
        output, state, timers = result(job)
        expected_output, expected_state, expected_timers = truth
        assert state == expected_state
        assert timers == expected_timers
        assert output == expected_output


class ByKey(SplitSource):
    """All epochs of the test, without end, each key's records in one split."""

    bounded = False
    replayable = True

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _ByKeyEnumerator(int(position or 0))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch(list(split.payload))


class _ByKeyEnumerator(SplitEnumerator):
    def __init__(self, start: int) -> None:
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> list[Split]:
        dealt: list[list[Any]] = [[] for _ in range(parallelism)]
        for record in EPOCHS[self._next]:
            dealt[KEYS.index(record[0]) % parallelism].append(record)
        self._next += 1
        return [Split(part, len(part)) for part in dealt]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        return self._next < len(EPOCHS)


@pytest.mark.parametrize("point", ["state.loaded", "task.batch", "delta.after", "ack.before", "manifest.before"])
def test_an_attempt_that_fails_right_at_the_rescale(truth: Any, point: str) -> None:
    with JobHarness(everything, inputs=["records"], parallelism=2, merge_after=3) as job:
        for number, records in enumerate(EPOCHS):
            if number % 3 == 1:
                job.rescale(WIDTHS[number % len(WIDTHS)])
                job.crash(Fault(point), records=records)  # a new driver: the program's parallelism holds again
                job.rescale(WIDTHS[number % len(WIDTHS)])
                job.run()
                assert subtasks(job.head) == WIDTHS[number % len(WIDTHS)]
            else:
                job.epoch(records=records)
        assert result(job) == truth


OPENED: list[tuple[str, int, int]] = []
CLOSED: list[str] = []


class Opened(MapFunction):
    """Tells where it is opened and closed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        place = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        OPENED.append((self.name, *place))

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        CLOSED.append(self.name)


def test_only_what_changes_is_opened_again() -> None:
    def build(env: Env, records: DataStream) -> DataStream:
        first = records.rebalance().map(Opened("first")).uid("first").set_parallelism(2)
        return first.key_by(lambda r: r[0]).map_with_state(lambda r, s: (r, (s or 0) + 1)).map(Opened("second"))

    OPENED.clear()
    CLOSED.clear()
    with JobHarness(build, inputs=["records"], parallelism=2, workers=2) as job:
        job.epoch(records=EPOCHS[0])
        job.epoch(records=EPOCHS[1])
        assert sorted(OPENED) == [("first", 0, 2), ("first", 1, 2), ("second", 0, 2), ("second", 1, 2)]
        OPENED.clear()
        job.rescale(3)
        job.epoch(records=EPOCHS[2])
        assert sorted(OPENED) == [("second", 0, 3), ("second", 1, 3), ("second", 2, 3)]
        assert CLOSED == ["second", "second"]
        OPENED.clear()
        job.rescale({"first": 1})
        job.epoch(records=EPOCHS[3])
        assert OPENED == [("first", 0, 1)]
        job.epoch(records=EPOCHS[4])
        assert OPENED == [("first", 0, 1)]


def test_workers_keep_nothing_of_subtasks_that_are_gone() -> None:
    def build(env: Env, records: DataStream) -> DataStream:
        return records.key_by(lambda r: r[0]).map_with_state(lambda r, s: (r, (s or 0) + 1)).uid("count")

    with JobHarness(build, inputs=["records"], parallelism=6, workers=6) as job:
        job.epoch(records=EPOCHS[0])
        assert kept(job) == 1 + 6
        job.rescale(1)
        job.epoch(records=EPOCHS[1])
        assert kept(job) == 1 + 1
        job.rescale(4)
        job.epoch(records=EPOCHS[2])
        assert kept(job) == 1 + 4


def kept(job: JobHarness) -> int:
    workers: list[WarmChains] = job._engine.workers
    return sum(len(worker._chains) for worker in workers)


# --- state of subtasks


class Buffer(MapFunction, CheckpointedFunction):
    """Keeps all it has seen in a list that is dealt out anew at another parallelism."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("buffered", Types.LONG())
        self.state = context.get_operator_state_store().get_list_state(descriptor)
        self.buffered = list(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.buffered)

    def map(self, value: int) -> Any:
        if value >= 0:
            self.buffered.append(value)
            return None
        return list(self.buffered)


def test_state_of_subtasks_is_dealt_out_anew() -> None:
    def build(env: Env, records: DataStream) -> DataStream:
        return records.rebalance().map(Buffer()).uid("buffer").filter(lambda seen: seen is not None)

    with JobHarness(build, inputs=["records"], parallelism=1) as job:
        for number, width in enumerate(WIDTHS):
            job.rescale(width)
            job.epoch(records=range(10 * number, 10 * number + 10))
            job.rescale({"buffer": 1})
            shown = len(job.output())
            job.epoch(records=[-1])
            (seen,) = job.output()[shown:]
            assert sorted(seen) == list(range(10 * number + 10))


# --- time


class Clock(KeyedProcessFunction):
    """What time it is where each record is processed."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value[0], ctx.timer_service().current_watermark()


def test_time_never_goes_back_behind_a_source_that_is_rescaled() -> None:
    """The subtasks of the source are not equally far: after a rescale the slowest one's time holds for all."""

    def build(env: Env, records: DataStream) -> DataStream:
        return timed(records).uid("timed").key_by(lambda r: r[0]).process(Clock()).uid("clock")

    fast, slow = [("a", 1000, 1), ("b", 1000, 2)], [("a", 400, 3), ("b", 400, 4)]
    dealt = [record for pair in zip(fast, slow, strict=True) for record in pair]
    with JobHarness(build, inputs=["records"], input_parallelism=None, parallelism=2) as job:
        job.epoch(records=dealt)
        ahead, behind = job.head.watermarks["timed"]
        assert {ahead, behind} == {989, 389}
        assert set(job.head.watermarks["clock"]) == {389}
        for width in (4, 1, 3, 2):
            job.rescale(width)
            job.epoch(records=[("a", 390, 5)])
            assert job.head.watermarks["timed"] == (389,) * width
            assert job.head.watermarks["clock"] == (389,) * width
        times = [time for _, time in job.output()]
        assert times[4:] == [389] * 4
        job.epoch(records=[("a", 2000, 6), ("a", 2000, 7)])
        assert set(job.head.watermarks["clock"]) == {1989}


def test_timers_fire_once_at_any_parallelism() -> None:
    class Later(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            ctx.timer_service().register_processing_time_timer(100)
            ctx.timer_service().register_event_time_timer(10_000)
            return ()

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
            yield timestamp, ctx.get_current_key()

    def build(env: Env, records: DataStream) -> DataStream:
        return timed(records).key_by(lambda r: r[0]).process(Later()).uid("later")

    with JobHarness(build, inputs=["records"], parallelism=1) as job:
        job.epoch(records=[(key, 1, 1) for key in KEYS])
        job.rescale(4)
        job.epoch()
        job.rescale(3)
        job.set_processing_time(100)
        job.epoch()
        assert sorted(job.output()) == sorted((100, key) for key in KEYS)
        job.rescale(5)
        job.epoch(records=[("x", 20_000, 2)])
        assert sorted(job.output()[17:]) == sorted([(100, "x"), *((10_000, key) for key in (*KEYS, "x"))])


# --- by configuration


def count(env: Env, records: DataStream) -> DataStream:
    return records.key_by(lambda r: r[0]).map_with_state(lambda r, s: ((r[0], (s or 0) + 1), (s or 0) + 1)).uid("count")


def test_the_default_max_parallelism_is_stored_and_outlives_another_default(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    with JobHarness(count, inputs=["records"], storage=storage) as job:
        job.epoch(records=[("a", 0, 1)])
        assert job.head.max_parallelism["count"] == 1024
        monkeypatch.setattr("tidemill.graph.parallelism.DEFAULT_MAX_PARALLELISM", 64)
        job.restart(parallelism=3)
        job.epoch(records=[("a", 0, 2)])
        assert job.output() == [("a", 1), ("a", 2)]
        assert job.head.max_parallelism["count"] == 1024


def test_a_stored_max_parallelism_holds_and_another_one_is_refused() -> None:
    def most(number: int) -> Any:
        return lambda env, records: count(env, records).set_max_parallelism(number)

    with JobHarness(most(4), inputs=["records"]) as job:
        job.epoch(records=[(key, 0, 1) for key in KEYS])
        job.restart(build=count)
        job.epoch(records=[(key, 0, 1) for key in KEYS])
        assert sorted(job.output()) == sorted([(key, n) for key in KEYS for n in (1, 2)])
        with pytest.raises(GraphError, match="max parallelism 4 and now has 8"):
            job.restart(build=most(8))
        with pytest.raises(GraphError, match="cannot have parallelism 5: its max parallelism is 4"):
            job.restart(build=count, parallelism=5, crashed=True)
        job.restart(build=count, parallelism=4, crashed=True)
        assert "max parallelism is 4" in str(job.rescale(5).exception())


def test_an_operator_that_a_later_program_adds_is_stored_with_its_max_parallelism() -> None:
    def more(env: Env, records: DataStream) -> DataStream:
        again = count(env, records).key_by(lambda r: r[0]).map_with_state(lambda r, s: (r, (s or 0) + 1)).uid("again")
        return again.set_max_parallelism(16)

    with JobHarness(count, inputs=["records"], merge_after=2) as job:
        job.epoch(records=EPOCHS[0])
        job.restart(build=more)
        for records in EPOCHS[1:6]:
            job.epoch(records=records)
        assert job.head.max_parallelism["again"] == 16
        assert any(run.snapshot for run in job.head.runs)
        job.restart(parallelism=3)
        assert job.state("again", "with-state")


# --- a client


class Flaky(MapFunction):
    """Fails once, in the first epoch that runs at parallelism 3."""

    failed = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        if self.subtasks == 3 and not Flaky.failed:
            Flaky.failed = True
            raise RuntimeError("right after the rescale")
        return value, self.subtasks


def client_env(**options: str) -> Env:
    configuration = Configuration()
    for key, value in {"execution.target": "local", "parallelism.default": "2", **options}.items():
        configuration.set_string(key.replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


class Endless(SplitSource):
    """A number per epoch while there are any left to give; never ends."""

    bounded = False
    replayable = True

    def __init__(self, most: int) -> None:
        self.most = most

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _EndlessEnumerator(int(position or 0), self.most)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch([split.payload])


class _EndlessEnumerator(SplitEnumerator):
    def __init__(self, start: int, most: int) -> None:
        self._next = start
        self._most = most

    def next_splits(self, parallelism: int, max_records: int) -> list[Split]:
        if not self.available():
            return []
        self._next += 1
        return [Split(self._next - 1, 1)]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        return self._next < self._most


def test_a_request_outlives_a_failure_of_the_job() -> None:
    env = client_env(**{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"})
    Flaky.failed = False
    stream = env.from_source(Endless(10**9), None, "numbers").key_by(lambda n: n % 5).reduce(max).map(Flaky())
    stream.print()
    client = env.execute_async("flaky")
    assert isinstance(client, RunningJob)
    client.rescale(3).result(timeout=60)
    assert Flaky.failed
    assert client.num_restarts == 1
    client.cancel().result(timeout=60)
    with pytest.raises(TidemillError, match="cancelled"):
        client.rescale(2).result(timeout=60)


def test_a_job_without_input_is_rescaled_by_an_empty_epoch() -> None:
    env = client_env()
    env.from_source(Endless(3), None, "numbers").key_by(lambda n: n).reduce(max).print()
    client = env.execute_async("idle")
    client.rescale(4).result(timeout=60)
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.cancel().result(timeout=60)


# --- a subtask reads its own part


class Counting(MemoryStorage):
    """Counts the bytes read from state files."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.whole = 0

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        data = super().read_range(name, offset, length)
        if not name.startswith("manifests/"):
            self.bytes += len(data)
            self.whole += length > self.size(name)
        return data


def test_a_subtask_reads_only_its_key_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.runtime.task.pieces.encode_sections", partial(encode_sections, block_bytes=4096))
    monkeypatch.setattr(restore, "_READ_WHOLE", 16_384)
    storage = Counting()

    def build(env: Env, records: DataStream) -> DataStream:
        return records.key_by(lambda n: n).map_with_state(lambda n, s: (n, "x" * 100)).uid("count")

    with JobHarness(build, inputs=["records"], parallelism=1, workers=1, storage=storage) as job:
        job.epoch(records=range(5000))
        (piece,) = job.head.pieces
        assert piece.length > 500_000
        assert storage.bytes == 0
        job.restart()  # a subtask that needs everything reads the file at once, and checks its SHA-256
        job.epoch()
        assert (storage.bytes, storage.whole) == (piece.length, 1)
        storage.bytes = storage.whole = 0
        job.rescale({"count": 4})
        job.epoch()
        assert storage.whole == 0
        index = 4 * 80_000  # four times the end of the file: its index lists 1024 groups
        assert storage.bytes < 1.15 * piece.length + index
        assert job.state("count", "with-state") == dict.fromkeys(range(5000), "x" * 100)
