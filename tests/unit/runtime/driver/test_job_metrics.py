"""The metrics of whole jobs: what committed epochs counted, whatever failed on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.common import Configuration, Duration, Types, WatermarkStrategy
from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope, MetricSnapshot
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    ErrorPolicy,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.window import TumblingEventTimeWindows
from tidemill.errors import TidemillError
from tidemill.faults import Fault
from tidemill.metrics.catalog import CATALOG, PER_SECOND
from tidemill.runtime.driver import assembly, coordinator
from tidemill.runtime.driver.job_metrics import JobMetrics
from tidemill.runtime.task import subtask_report, task
from tidemill.testing import JobHarness


class Clock:
    """Time passes by a microsecond at each look, and as a function says: not while a machine is busy."""

    def __init__(self) -> None:
        self.nanoseconds = 0

    def look(self) -> int:
        self.nanoseconds += 1000
        return self.nanoseconds


CLOCK = Clock()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that jobs measure is measured by the clock."""

    def seconds() -> float:
        return CLOCK.look() / 1e9

    for module in (task, subtask_report):
        monkeypatch.setattr(module, "perf_counter_ns", CLOCK.look)
    monkeypatch.setattr(coordinator, "time", SimpleNamespace(perf_counter=seconds, time_ns=time.time_ns))
    monkeypatch.setattr(assembly, "JobMetrics", SimpleNamespace(of=partial(timed, seconds)))


def timed(seconds: Callable[[], float], *arguments: Any, **options: Any) -> JobMetrics:
    made = JobMetrics.of(*arguments, **options)
    made._clock = seconds
    return made


class Stamps(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Counting(MapFunction):
    def open(self, runtime_context: Any) -> None:
        group = runtime_context.get_metrics_group()
        self.opened = group.counter("opened")
        self.opened.inc()
        self.seen = group.counter("seen")
        self.marked = group.meter("marked")
        self.sizes = group.histogram("sizes")
        self.last = 0
        group.gauge("last", lambda: self.last)

    def map(self, value: Any) -> Any:
        self.seen.inc()
        self.marked.mark_event()
        self.sizes.update(value)
        self.last = value
        return value


def counting(env: StreamExecutionEnvironment, numbers: Any) -> Any:
    return numbers.map(Counting()).uid("counting").key_by(lambda n: n % 4).reduce(lambda a, b: a + b).uid("sum")


def per_second(metrics: MetricSnapshot, subtask: int, task: str) -> list[float]:
    return [
        metrics.find(f"{kind}TimeMsPerSecond", operator=task, subtask=subtask)[0].value  # type: ignore[misc]
        for kind in ("busy", "backPressured", "idle")
    ]


def test_records_are_counted_at_every_operator_and_task() -> None:
    with JobHarness(counting, inputs=["numbers"]) as job:
        job.epoch(numbers=range(10))
        job.epoch(numbers=range(5))
        metrics = job.metrics()
    for name in ("numRecordsIn", "numRecordsOut"):
        assert metrics.total(name, operator="counting") == 15
        assert metrics.total(name, operator="sum") == 15
    source = metrics.find("pendingRecords")[0].operator
    assert metrics.total("numRecordsOut", operator=source) == 15
    tasks = metrics.find("numRecordsIn", scope=MetricScope.TASK)
    assert sum(task.value for task in tasks if task.operator == source) == 15  # type: ignore[misc]
    sent = sum(v.value for v in metrics.find("numBytesOut"))  # type: ignore[misc]
    assert sent == sum(v.value for v in metrics.find("numBytesIn")) > 0  # type: ignore[misc]
    assert {v.operator_name for v in tasks} == {v.operator_name for v in metrics.find("busyTimeMsPerSecond")}
    assert metrics.get("currentEpoch") == metrics.get("numEpochs") == metrics.get("numEpochRuns") == 2


@pytest.mark.parametrize("point", ["ack.before", "manifest.before", "task.batch", "sink.commit.before", "epoch.done"])
def test_what_failed_and_was_done_again_is_counted_once(point: str) -> None:
    with JobHarness(counting, inputs=["numbers"]) as job:
        job.epoch(numbers=range(10))
        job.crash(Fault(point), numbers=range(100))
        job.run()
        job.epoch(numbers=[1])
        metrics = job.metrics()
    # An epoch that was committed before the crash did its work, but nobody was left to take its metrics in.
    lost = 100 if point in ("sink.commit.before", "epoch.done") else 0
    for name in ("seen", "numRecordsOut", "numRecordsIn"):
        assert metrics.total(name, operator="counting") == 111 - lost
    (marked,) = {value.kind for value in metrics.find("marked")}
    assert marked is MetricKind.METER
    assert sum(value.events or 0 for value in metrics.find("marked")) == 111 - lost
    sizes = metrics.get("sizes")
    assert isinstance(sizes, HistogramValue)
    assert (sizes.count, sizes.max) == (111 - lost, 9 if lost else 99)


def test_counts_go_on_when_a_job_is_started_again_by_its_driver() -> None:
    failures_left[:] = [True]
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.epoch.max-records": "20",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, 100).map(Once()).uid("once").filter(lambda n: False).print()
    client = env.execute_async("fragile")
    client.get_job_execution_result().result()
    metrics = client.get_metrics()
    assert metrics.total("seen") == 100
    assert (metrics.job_name, metrics.get("numRestarts"), metrics.get("numEpochs")) == ("fragile", 1, 5)
    assert metrics.get("numberOfCompletedCheckpoints") == metrics.get("totalNumberOfCheckpoints") == 5
    assert metrics.get("uptime") == metrics.get("downtime") == 0, "it is over"
    assert abs(metrics.timestamp - metrics.total("lastCheckpointRestoreTimestamp")) < 60_000
    assert metrics.get("pendingRecords") == 0
    assert client.get_accumulators().result()["once.seen"] == 100


def test_a_gauge_is_as_of_the_last_epoch_and_gone_with_its_subtask() -> None:
    with JobHarness(counting, inputs=["numbers"], parallelism=3) as job:
        job.epoch(numbers=[5, 6, 7])
        assert {v.value for v in job.metrics().find("last")} == {5, 6, 7}
        job.restart(parallelism=1)
        job.epoch(numbers=[8])
        metrics = job.metrics()
    assert metrics.get("last") == 8
    assert [v.subtask for v in metrics.find("busyTimeMsPerSecond", operator="sum")] == [0]
    assert metrics.total("seen") == 4


failures_left: list[bool] = []


class Once(Counting):
    """Fails at one record, the first time it comes."""

    def map(self, value: Any) -> Any:
        if super().map(value) == 70 and failures_left:
            failures_left.clear()
            raise ValueError("for once")
        return value


class Keeping(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.state.update("x" * 100)
        ctx.timer_service().register_processing_time_timer(10**15)
        yield value


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_entries_and_bytes_of_state(backend: str) -> None:
    def keeping(env: StreamExecutionEnvironment, numbers: Any) -> Any:
        return numbers.key_by(lambda n: n).process(Keeping()).uid("keeping")

    with JobHarness(keeping, inputs=["numbers"], configuration={"state.backend.type": backend}) as job:
        job.epoch(numbers=range(50))
        job.epoch()
        metrics = job.metrics()
    if backend == "hashmap":
        assert metrics.total("stateEntries", variables={"state": "kept"}) == 50
        assert metrics.total("stateEntries", variables={"state": "__timers_processing"}) == 50
        assert 50 * 100 < metrics.total("stateBytes", variables={"state": "kept"}) < 50 * 300
    else:
        assert metrics.total("stateEntries") == 100
        assert metrics.total("stateBytes") > 0
    assert metrics.total("lastDeltaSize") == 0, "the last epoch changed nothing"


def test_time_late_and_poison_records() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(Stamps())
    bad = OutputTag("bad")

    def windows(env: StreamExecutionEnvironment, numbers: Any) -> Any:
        stamped = numbers.assign_timestamps_and_watermarks(strategy).uid("stamps")
        checked = (
            stamped.map(lambda pair: (pair[0], 100 // pair[0])).on_error(ErrorPolicy.side_output(bad)).uid("check")
        )
        keyed = checked.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Duration.of_millis(10)))
        return keyed.reduce(lambda a, b: a).uid("window")

    with JobHarness(windows, inputs=["numbers"], parallelism=1, processing_time=1000) as job:
        job.epoch(numbers=[(1, 5), (0, 6), (2, 47)])
        metrics = job.metrics()
        assert metrics.get("currentOutputWatermark", operator="stamps") == 46
        assert metrics.get("watermarkLag", operator="stamps") == 1000 - 46
        assert metrics.get("currentFetchEventTimeLag", operator="stamps") == 1000 - 47
        assert metrics.get("currentInputWatermark", operator="window") == 46
        assert metrics.get("numPoisonRecords", operator="check") == 1
        job.epoch(numbers=[(1, 7), (1, 48)])
        metrics = job.metrics()
    assert metrics.get("numLateRecordsDropped", operator="window") == 1
    assert metrics.get("numRecordsIn", operator="window") == 4


def test_before_the_first_watermark_none_is_shown() -> None:
    with JobHarness(counting, inputs=["numbers"]) as job:
        job.epoch(numbers=[1])
        assert not job.metrics().find("currentInputWatermark")


@pytest.mark.usefixtures("clock")
def test_busy_idle_and_held_up_are_all_there_is() -> None:
    with JobHarness(counting, inputs=["numbers"], parallelism=1) as job:
        for _ in range(2):
            job.epoch(numbers=range(2000))
        metrics = job.metrics()
    source = metrics.find("pendingRecords")[0].operator
    for uid in (source, "sum"):
        busy, held_up, idle = per_second(metrics, 0, uid)
        assert busy + held_up + idle == pytest.approx(1000)
        assert busy > 0
    assert per_second(metrics, 0, source)[1] < 500, "there was no more to read"


@pytest.mark.usefixtures("clock")
def test_a_source_with_more_to_read_is_held_up_while_others_work() -> None:
    def slow(env: StreamExecutionEnvironment, numbers: Any) -> Any:
        return numbers.key_by(lambda n: n).map(Sleeping()).uid("slow")

    with JobHarness(slow, inputs=["numbers"], parallelism=1) as job:
        for _ in range(3):
            job.inputs["numbers"].add([1])
        job.epoch()
        metrics = job.metrics()
        assert metrics.get("pendingRecords") == 2
        source = metrics.find("pendingRecords")[0].operator
        assert per_second(metrics, 0, source)[1] > 500
        assert per_second(metrics, 0, "slow")[0] > 500
        job.run()
        metrics = job.metrics()
    assert per_second(metrics, 0, source)[1] < 100, "now it has read all"


class Sleeping(MapFunction):
    def map(self, value: Any) -> Any:
        CLOCK.nanoseconds += 20_000_000
        return value


def test_the_phases_of_an_epoch() -> None:
    with JobHarness(counting, inputs=["numbers"]) as job:
        job.epoch(numbers=range(1000))
        metrics = job.metrics()
    phases = {dict(v.variables)["phase"]: v.value for v in metrics.find("epochPhaseTime")}
    assert set(phases) == {"source", "load", "compute", "exchange", "delta", "commit", "other"}
    spent = {phase: value.sum for phase, value in phases.items() if isinstance(value, HistogramValue)}
    whole = metrics.get("epochDuration")
    assert isinstance(whole, HistogramValue)
    assert whole.count == 1
    assert sum(spent.values()) == pytest.approx(whole.sum, rel=0.01)
    assert spent["compute"] > 0
    assert spent["load"] > 0


def test_an_epoch_that_failed_counts_nothing() -> None:
    with JobHarness(counting, inputs=["numbers"]) as job:
        with pytest.raises(TidemillError):
            job.epoch(numbers=[1, 2, "not a number"])
        metrics = job.metrics()
    assert metrics.total("numEpochs") == metrics.total("seen") == 0


def test_jobs_report_what_the_catalog_lists_and_nothing_else() -> None:
    """All kinds of metrics, in one job: windows, state, sources, sinks, checkpoints, restarts."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps())
    configuration = Configuration().set_string("execution.target", "local")
    configuration.set_string("execution.epoch.max-records", "7")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    pairs = env.from_collection([(n, n) for n in range(20)]).assign_timestamps_and_watermarks(strategy)
    checked = pairs.map(lambda pair: (pair[0], 1 // pair[0])).on_error(ErrorPolicy.side_output(OutputTag("bad")))
    window = checked.key_by(lambda pair: 0).window(TumblingEventTimeWindows.of(Duration.of_millis(5)))
    window.reduce(lambda a, b: a).filter(lambda pair: False).print()
    client = env.execute_async("all")
    client.get_job_execution_result().result()
    found = {
        (value.scope, value.name, value.kind, by(value.subtask, value.variables)) for value in client.get_metrics()
    }
    listed = {(m.scope, m.name, m.kind, frozenset(m.by)) for m in CATALOG}
    rates = {(m.scope, m.name + PER_SECOND, MetricKind.METER, frozenset(m.by)) for m in CATALOG if m.rated}
    assert found - listed - rates == set(), "reported, but not listed"
    # The job was not restored, watches no files, and reads no columns.
    never_here = {"lastCheckpointRestoreTimestamp", "pendingFiles", "numFilesSkipped", "numRecordsToObjects"}
    assert {name for _, name, *_ in (listed | rates) - found} == never_here


def by(subtask: Any, variables: Any) -> frozenset[str]:
    return frozenset([*(["subtask"] if subtask is not None else []), *(name for name, _ in variables)])
