"""Event time of whole jobs: partitions, idle sources, and what outlives epochs, moves, crashes and rescaling."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.semantics.cases_state import SecondField
from tests.semantics.partitions import (
    MIN_TIME,
    EveryThird,
    KeyedTellTime,
    Log,
    LogSource,
    OnMarker,
    TellTime,
)
from tests.semantics.test_watermarks import Older
from tests.thorough import how_many
from tidemill.common import (
    AssignerWithPeriodicWatermarksWrapper,
    Configuration,
    Duration,
    Types,
    WatermarkStrategy,
)
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.faults import Fault
from tidemill.testing.job_harness import JobHarness, moving

Env = StreamExecutionEnvironment

restarting = pytest.mark.parametrize("restart", ["never", "each epoch", "moving workers"])


def harness(build: Any, restart: str, **options: Any) -> JobHarness:
    placement = moving(3) if restart == "moving workers" else None
    return JobHarness(build, **{"parallelism": 1, "workers": 3, "placement": placement, **options})


def step(job: JobHarness, restart: str, clock: int | None = None, **records: Any) -> list[Any]:
    """Run one epoch, at a processing time; gives what came out."""
    before = len(job.output())
    if clock is not None:
        job.set_processing_time(clock)
    job.epoch(**records)
    if restart == "each epoch":
        job.restart()
    return job.output()[before:]


def monotonous() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


# --- two sources, one of them idle


def two_sources(idle_timeout: int | None = 100, exchange: bool = False) -> Any:
    def build(env: Env, one: DataStream, two: DataStream) -> DataStream:
        strategy = monotonous() if idle_timeout is None else monotonous().with_idleness(idle_timeout)
        streams = [s.assign_timestamps_and_watermarks(strategy).set_parallelism(1) for s in (one, two)]
        if exchange:
            streams = [s.rebalance().map(lambda record: record).set_parallelism(2) for s in streams]
        both = streams[0].union(streams[1])
        return both.key_by(lambda record: "all").process(KeyedTellTime()).set_parallelism(1)

    return build


@restarting
def test_without_idleness_a_silent_source_holds_time_back_for_ever(restart: str) -> None:
    with harness(two_sources(None), restart, inputs=["one", "two"]) as job:
        step(job, restart, 0, one=[("a", 10)], two=[])
        assert step(job, restart, 10_000, one=[("a", 20)], two=[]) == [("a", 20, "min")]
        assert job.head.next_timer is None


@pytest.mark.parametrize("exchange", [False, True], ids=["directly", "over another exchange"])
@pytest.mark.parametrize("restart", ["never", "moving workers"])
def test_an_idle_source_is_not_waited_for_and_comes_back(restart: str, exchange: bool) -> None:
    def sorted_step(clock: int, one: list[Any], two: list[Any]) -> list[Any]:
        return sorted(step(job, restart, clock, one=one, two=two))

    with harness(two_sources(exchange=exchange), restart, inputs=["one", "two"]) as job:
        assert sorted_step(0, [("a", 10)], [("b", 1)]) == [("a", 10, "min"), ("b", 1, "min")]
        assert sorted_step(50, [("a", 20)], []) == [("a", 20, 0)]
        # In this epoch the second source is found to be idle, which is sent before the records of the first. Behind an
        # exchange a subtask of the first has no record, and sends its time only with the end of the epoch.
        seen, rung = (0, 29) if exchange else (19, 19)
        assert sorted_step(101, [("a", 30)], []) == [
            ("a", 30, seen),
            ("alarm", 1, rung),
            ("alarm", 10, rung),
            ("alarm", 20, 29),
        ]
        assert sorted_step(110, [("a", 40)], []) == [("a", 40, 29), ("alarm", 30, 39)]
        # It comes back far behind: its record is late, and it is not waited for until it has caught up.
        assert sorted_step(120, [], [("b", 5)]) == [("b", 5, 39)]
        assert sorted_step(130, [("a", 90)], []) == [("a", 90, 39), ("alarm", 5, 89), ("alarm", 40, 89)]
        assert sorted_step(140, [], [("b", 60)]) == [("b", 60, 89)]
        assert sorted_step(150, [("a", 200)], [("b", 101)])[-1] == ("b", 101, 89)
        assert sorted_step(160, [("a", 210)], []) == [("a", 210, 100)]


def test_while_a_source_is_idle_time_moves_on_within_an_epoch() -> None:
    with harness(two_sources(), "never", inputs=["one", "two"]) as job:
        step(job, "never", 0, one=[("a", 1)], two=[("b", 1)])
        step(job, "never", 200, one=[("a", 2)], two=[])
        records = step(job, "never", 210, one=[("a", 10 + n) for n in range(10_000)], two=[])
        assert ("a", 10_009, 8200) in records, "the second batch sees the time of the first"


@restarting
def test_when_a_source_becomes_idle_is_known_beforehand(restart: str) -> None:
    with harness(two_sources(), restart, inputs=["one", "two"]) as job:
        step(job, restart, 5, one=[("a", 10)], two=[])
        assert job.head.next_timer == 106
        if restart == "each epoch":
            return  # after a restart the time is counted anew
        step(job, restart, 50, one=[("a", 20)], two=[])
        assert job.head.next_timer == 106
        step(job, restart, 106, one=[], two=[])
        assert job.head.next_timer == 151  # the second is idle, the first will be
        step(job, restart, 151, one=[], two=[])
        assert job.head.next_timer is None


def test_after_a_restart_the_time_without_records_is_counted_anew() -> None:
    """The job may have been down for an hour: that says nothing about its sources."""
    with harness(two_sources(), "never", inputs=["one", "two"]) as job:
        step(job, "never", 0, one=[("a", 10)], two=[])
        job.restart()
        assert step(job, "never", 1_000_000, one=[("a", 20)], two=[]) == [("a", 20, "min")]
        assert job.head.next_timer == 1_000_101
        assert step(job, "never", 1_000_101, one=[("a", 30)], two=[])[-1] == ("alarm", 20, 29)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_idleness_outlives_restarts_and_rescaling(parallelism: int) -> None:
    with JobHarness(two_sources(exchange=True), inputs=["one", "two"]) as job:
        step(job, "never", 0, one=[("a", 10)], two=[("b", 1)])
        step(job, "never", 101, one=[("a", 20)], two=[])
        job.restart(parallelism=parallelism)
        assert sorted(step(job, "never", 110, one=[("a", 30)], two=[])) == [("a", 30, 19), ("alarm", 20, 29)]


def test_all_sources_idle() -> None:
    with harness(two_sources(), "never", inputs=["one", "two"]) as job:
        step(job, "never", 0, one=[("a", 10)], two=[("b", 5)])
        assert step(job, "never", 101, one=[], two=[]) == [("alarm", 5, 9)]  # the greatest of both: 9
        assert step(job, "never", 500, one=[], two=[]) == []
        assert step(job, "never", 510, one=[("a", 20)], two=[]) == [("a", 20, 9), ("alarm", 10, 19)]


def test_a_source_that_ends_while_it_is_idle_holds_no_other_back() -> None:
    log = Log("p")
    log.add(p=[("x", 3)])

    def build(env: Env, one: DataStream) -> DataStream:
        strategy = monotonous().with_idleness(100)
        ending = env.from_source(LogSource(log), strategy, "ending")
        stream = one.assign_timestamps_and_watermarks(monotonous()).set_parallelism(1)
        return stream.union(ending).key_by(lambda r: "all").process(KeyedTellTime()).set_parallelism(1)

    with harness(build, "never", inputs=["one"]) as job:
        step(job, "never", 0, one=[("a", 10)])
        step(job, "never", 101, one=[("a", 20)])
        log.ended = True
        step(job, "never", 102, one=[("a", 30)])
        assert step(job, "never", 103, one=[("a", 40)])[0] == ("a", 40, 29)


def test_random_idleness_is_the_same_on_warm_and_cold_workers() -> None:
    """Any sequence of records and pauses gives the same times, whoever runs the epochs."""
    for seed in range(how_many(2, 8)):
        chance = random.Random(seed)
        clock, script = 0, []
        for epoch in range(25):
            clock += chance.choice([1, 20, 60, 120])
            records = {
                name: [(f"{name}{epoch}", clock + chance.randint(-30, 30))] if chance.random() < 0.4 else []
                for name in ("one", "two")
            }
            script.append((clock, records))
        results = []
        for restart in ("never", "moving workers"):
            with harness(two_sources(exchange=True), restart, inputs=["one", "two"]) as job:
                results.append([step(job, restart, clock, **records) for clock, records in script])
        assert results[0] == results[1], f"seed {seed}"


# --- partitions of one source


def of_log(log: Log, strategy: WatermarkStrategy | None = None, parallelism: int | None = 1) -> Any:
    def build(env: Env) -> DataStream:
        source = LogSource(log, parallelism)
        stream = env.from_source(source, strategy or monotonous(), "log").uid("log")
        return stream.key_by(lambda record: "all").process(KeyedTellTime()).set_parallelism(1)

    return build


@restarting
def test_the_slowest_partition_of_a_subtask_counts(restart: str) -> None:
    log = Log("p", "q")
    with harness(of_log(log), restart) as job:
        log.add(p=[("p", 50)], q=[("q", 10)])
        assert step(job, restart) == [("p", 50, "min"), ("q", 10, "min")]
        log.add(p=[("p", 60)])
        assert step(job, restart) == [("p", 60, 9)]
        log.add(q=[("q", 30)])
        assert step(job, restart) == [("q", 30, 9), ("alarm", 10, 29)]
        assert job.head.watermarks["log"] == (29,)


def test_all_partitions_of_an_epoch_are_known_before_the_first_is_read() -> None:
    log = Log("p", "q")
    with harness(of_log(log), "never") as job:
        log.add(p=[("p", 50)], q=[])
        assert step(job, "never") == [("p", 50, "min")]
        assert job.head.watermarks["log"] == (MIN_TIME,)


def test_a_partition_may_have_a_time_before_it_is_read() -> None:
    log = Log("p", "q")
    with harness(of_log(log), "never") as job:
        log.known["q"] = 40
        log.add(p=[("p", 50)], q=[])
        assert step(job, "never") == [("p", 50, "min")]
        assert job.head.watermarks["log"] == (40,)


@restarting
def test_an_idle_partition_is_not_waited_for(restart: str) -> None:
    log = Log("p", "q")
    with harness(of_log(log, monotonous().with_idleness(100)), restart if restart != "each epoch" else "never") as job:
        log.add(p=[("p", 50)], q=[("q", 10)])
        step(job, "never", 0)
        log.add(p=[("p", 60)])
        assert step(job, "never", 101) == [("p", 60, 9), ("alarm", 10, 59), ("alarm", 50, 59)]
        if restart == "each epoch":
            job.restart()
        log.add(q=[("q", 20)], p=[("p", 70)])  # it comes back, behind
        assert step(job, "never", 102) == [("p", 70, 59), ("alarm", 60, 69), ("q", 20, 69)]
        log.add(p=[("p", 80)])
        assert step(job, "never", 103) == [("p", 80, 69)]


def test_a_new_partition_counts_from_its_first_split_on() -> None:
    log = Log("p", "q")
    with harness(of_log(log), "never") as job:
        log.add(p=[("p", 50)])
        step(job, "never")
        log.add(p=[("p", 60)], q=[("q", 55)])
        step(job, "never")
        assert job.head.watermarks["log"] == (54,)


def test_a_partition_that_has_ended_holds_no_other_back() -> None:
    log = Log("p", "q")
    with harness(of_log(log), "never") as job:
        log.add(p=[("p", 50)], q=[("q", 10)])
        step(job, "never")
        log.closed.add("q")
        log.add(q=[("q", 20)])
        assert step(job, "never") == [("q", 20, 9), ("alarm", 10, 49), ("alarm", 20, 49)]


@pytest.mark.parametrize("live", [True, False], ids=["while it runs", "by a restart"])
def test_partitions_keep_their_time_when_the_source_is_rescaled(live: bool) -> None:
    log = Log("p", "q", "r")
    with JobHarness(of_log(log, parallelism=None), parallelism=1) as job:
        log.add(p=[("p", 50)], q=[("q", 10)], r=[("r", 30)])
        step(job, "never")
        for parallelism in (3, 2, 1, 3):
            if live:
                job.rescale(parallelism)
            else:
                job.restart(parallelism=parallelism)
            log.add(p=[("p", 60)])
            assert step(job, "never") == [("p", 60, 9)], "q stands at 10, wherever it is read"
        log.add(q=[("q", 40)])
        step(job, "never")
        log.add(p=[("p", 61)])
        assert step(job, "never") == [("p", 61, 29)], "now it is r"


def test_a_subtask_without_partitions_holds_no_other_back() -> None:
    log = Log("p", "q")
    with harness(of_log(log, parallelism=4), "never") as job:
        log.add(p=[("p", 50)], q=[("q", 10)])
        step(job, "never")
        log.add(p=[("p", 60)])
        assert step(job, "never") == [("p", 60, 9)]
        job.restart()
        log.add(q=[("q", 60)])
        assert step(job, "never") == [("q", 60, 9), ("alarm", 10, 59), ("alarm", 50, 59)]


# --- generators of one's own


@pytest.mark.parametrize("restart", ["never", "each epoch", "moving workers", "crashing"])
def test_a_generator_remembers_across_epochs(restart: str) -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        strategy = WatermarkStrategy.for_generator(EveryThird).with_timestamp_assigner(SecondField())
        return events.assign_timestamps_and_watermarks(strategy).uid("third").set_parallelism(1).process(TellTime())

    with harness(build, restart, inputs=["events"], parallelism=1) as job:
        seen = []
        for time in (5, 9, 7, 1, 2, 30, 3):
            if restart == "crashing":
                job.crash(Fault("manifest.before"), events=[("a", time)])
                step(job, restart)
            else:
                step(job, restart, events=[("a", time)])
            seen.append(job.head.watermarks["third"][0])
        assert seen == [MIN_TIME, MIN_TIME, 9, 9, 9, 30, 30]


@pytest.mark.parametrize("restart", ["never", "each epoch", "moving workers", "crashing"])
def test_the_older_assigner_remembers_too(restart: str) -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        strategy = AssignerWithPeriodicWatermarksWrapper(Older()).to_watermark_strategy()
        return events.assign_timestamps_and_watermarks(strategy).uid("older").set_parallelism(1)

    with harness(build, restart, inputs=["events"]) as job:
        seen = []
        for time in (5, 4, 9):
            if restart == "crashing":
                job.crash(Fault("manifest.before"), events=[("a", time)])
                step(job, restart)
            else:
                step(job, restart, events=[("a", time)])
            seen.append(job.head.watermarks["older"][0])
        assert seen == [3, 3, 7]


def test_what_the_program_sets_up_is_the_programs_also_after_a_change() -> None:
    class Behind(EveryThird):
        def __init__(self, lag: int) -> None:
            super().__init__()
            self.lag = lag

        def on_periodic_emit(self, output: Any) -> None:
            from tidemill.common import Watermark

            output.emit_watermark(Watermark(self.greatest - self.lag))

    def build(lag: int) -> Any:
        def program(env: Env, events: DataStream) -> DataStream:
            strategy = WatermarkStrategy.for_generator(lambda: Behind(lag)).with_timestamp_assigner(SecondField())
            return events.assign_timestamps_and_watermarks(strategy).uid("behind").set_parallelism(1)

        return program

    with JobHarness(build(10), inputs=["events"]) as job:
        job.epoch(events=[("a", 100)])
        assert job.head.watermarks["behind"] == (90,)
        job.restart(build=build(3))
        job.epoch(events=[])
        assert job.head.watermarks["behind"] == (97,)


def test_a_punctuated_source_that_says_it_is_idle_lets_others_go_on() -> None:
    def build(env: Env, one: DataStream, two: DataStream) -> DataStream:
        strategy = WatermarkStrategy.for_generator(OnMarker).with_timestamp_assigner(SecondField())
        streams = [s.assign_timestamps_and_watermarks(strategy).set_parallelism(1) for s in (one, two)]
        return streams[0].union(streams[1]).key_by(lambda r: "all").process(KeyedTellTime()).set_parallelism(1)

    with JobHarness(build, inputs=["one", "two"], placement=moving(2)) as job:
        job.epoch(one=[("mark", 10)], two=[("mark", 3), ("idle", 4)])
        job.epoch(one=[("mark", 20)], two=[])
        job.epoch(one=[("a", 25)], two=[])
        assert job.output()[-1] == ("a", 25, 20)
        job.epoch(one=[("mark", 30)], two=[("active", 5)])
        job.epoch(one=[("a", 26)], two=[])
        assert job.output()[-1] == ("a", 26, 30), "the one that is active again stands at 3, and is not waited for"


# --- never back


def test_watermarks_never_go_back() -> None:
    log = Log("p", "q", "r")
    chance = random.Random(3)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(SecondField())
    with JobHarness(of_log(log, strategy.with_idleness(40), None), parallelism=2, workers=3) as job:
        clock, last = 0, MIN_TIME
        for epoch in range(60):
            clock += chance.randint(1, 30)
            log.add(**{name: [(name, clock - chance.randint(0, 9))] for name in "pqr" if chance.random() < 0.5})
            times = [MIN_TIME if record[-1] == "min" else record[-1] for record in step(job, "never", clock)]
            assert min(times, default=last) >= last
            last = max(times, default=last)
            if epoch % 4 == 3:
                job.restart(parallelism=chance.randint(1, 4))
        assert clock - 200 < last < clock, "and they did go on"


class LastSeen(KeyedProcessFunction):
    """The last value of a key, which expires after 100 ms of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("last", Types.STRING())
        config = StateTtlConfig.new_builder(Duration.of_millis(100)).use_event_time().build()
        descriptor.enable_time_to_live(config)
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield value[0], value[1], self.last.value()
        self.last.update(f"at {value[1]}")


@restarting
def test_state_with_event_time_ttl_waits_for_the_slowest_source(restart: str) -> None:
    def build(env: Env, one: DataStream, two: DataStream) -> DataStream:
        strategy = monotonous().with_idleness(50)
        streams = [s.assign_timestamps_and_watermarks(strategy).set_parallelism(1) for s in (one, two)]
        return streams[0].union(streams[1]).key_by(0).process(LastSeen()).set_parallelism(1)

    with harness(build, "moving workers" if restart == "moving workers" else "never", inputs=["one", "two"]) as job:
        step(job, "never", 0, one=[("a", 0)], two=[("b", 0)])
        assert step(job, "never", 1, one=[("x", 500)], two=[]) == [("x", 500, None)]
        assert step(job, "never", 2, one=[], two=[("a", 10)]) == [("a", 10, "at 0")], "b's source stands at 0"
        step(job, "never", 60, one=[("x", 600)], two=[])  # the second is idle now: time goes to 599
        if restart == "each epoch":
            job.restart()
        assert step(job, "never", 61, one=[("a", 601)], two=[]) == [("a", 601, None)]


def test_an_idle_source_wakes_a_job_without_input() -> None:
    """No record comes any more; still the alarms go off, since an epoch is run when the other source goes idle."""
    one, two = Log("p"), Log("p")
    one.add(p=[("a", 10), ("a", 20)])
    two.add(p=[("b", 1)])
    configuration = Configuration.from_dict({"execution.target": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    streams = [env.from_source(LogSource(log), monotonous().with_idleness(50), "log") for log in (one, two)]
    timed = streams[0].union(streams[1]).key_by(lambda record: "all").process(KeyedTellTime()).uid("timed")
    with timed.execute_and_collect("idle") as results:
        records = [next(results) for _ in range(5)]
    assert sorted(records[:3]) == [("a", 10, "min"), ("a", 20, "min"), ("b", 1, "min")]
    assert [record[:2] for record in records[3:]] == [("alarm", 1), ("alarm", 10)]


# --- idleness that a program gets later


@pytest.mark.parametrize("before", [None, 1_000_000], ids=["none before", "a longer one before"])
@pytest.mark.parametrize("where", ["source", "behind it"])
def test_idleness_added_to_a_restored_job_needs_no_input(where: str, before: int | None) -> None:
    """No record comes after the restart: partitions are idle after the timeout, counted from then."""
    log = Log("p", "q")

    def program(timeout: int | None) -> Any:
        strategy = monotonous() if timeout is None else monotonous().with_idleness(timeout)

        def build(env: Env) -> DataStream:
            of_source = strategy if where == "source" else None
            stream = env.from_source(LogSource(log), of_source, "log").uid("log")
            if where == "behind it":
                stream = stream.assign_timestamps_and_watermarks(strategy)
            windows = stream.key_by(lambda record: record[0]).window(TumblingEventTimeWindows.of(10))
            return windows.reduce(lambda one, two: one).uid("windows")

        return build

    def due(job: JobHarness) -> bool:
        return job.due

    with JobHarness(program(before), parallelism=1) as job:
        log.add(p=[("a", 4)], q=[("b", 3)])
        job.epoch()
        assert not due(job)
        job.set_processing_time(1000)
        job.restart(build=program(100))
        assert due(job)
        job.epoch()
        assert not due(job)
        job.set_processing_time(1100)
        assert not due(job)
        job.set_processing_time(1101)
        assert due(job)
        job.epoch()
        assert not due(job), "all are idle, and nothing more is to be waited for"
        log.add(p=[("a", 20)])
        job.epoch()
        assert sorted(job.output()) == [("a", 4), ("b", 3)], "q is idle, and p alone has moved time on"


def test_without_idleness_a_restored_job_waits_for_input() -> None:
    log = Log("p")

    def build(env: Env) -> DataStream:
        return env.from_source(LogSource(log), monotonous(), "log").uid("log").map(lambda record: record)

    with JobHarness(build, parallelism=1) as job:
        log.add(p=[("a", 4)])
        job.epoch()
        job.restart()
        assert not job.due
