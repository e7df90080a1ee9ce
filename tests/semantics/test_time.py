"""Time across epochs: clocks and timers continue after moves, crashes and restores as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.semantics.cases_state import SecondField
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
    ValueStateDescriptor,
)
from tidemill.testing.job_harness import JobHarness, moving

Env = StreamExecutionEnvironment
MIN_TIME = -(2**63)

restarting = pytest.mark.parametrize("restart", ["never", "each epoch", "each epoch, rescaled", "moving workers"])


def between_epochs(job: JobHarness, restart: str, epoch: int) -> None:
    if restart == "each epoch":
        job.restart()
    elif restart == "each epoch, rescaled":
        job.restart(parallelism=1 + epoch % 3)


def harness(build: Any, restart: str, **options: Any) -> JobHarness:
    placement = moving(3) if restart == "moving workers" else None
    return JobHarness(build, workers=3, placement=placement, **options)


class Alarm(KeyedProcessFunction):
    """An alarm 100 ms after the first record of a key, by processing time; a record 'stop' takes it back."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        if value[1] == "stop":
            service.delete_processing_time_timer(self.due.value())
            self.due.clear()
        elif self.due.value() is None:
            self.due.update(service.current_processing_time() + 100)
            service.register_processing_time_timer(self.due.value())
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        self.due.clear()
        yield ctx.get_current_key(), timestamp


def alarms(env: Env, events: DataStream) -> DataStream:
    return events.key_by(0, Types.STRING()).process(Alarm()).uid("alarm")


@restarting
def test_processing_time_timers_outlive_epochs(restart: str) -> None:
    with harness(alarms, restart, inputs=["events"]) as job:
        for epoch, (clock, events, fired) in enumerate(
            [
                (0, [("a", "go"), ("b", "go")], []),
                (50, [("c", "go"), ("b", "stop")], []),
                (99, [], []),
                (100, [], [("a", 100)]),
                (149, [("a", "go")], []),
                (500, [], [("c", 150), ("a", 249)]),
            ]
        ):
            before = len(job.output())
            job.set_processing_time(clock)
            job.epoch(events=events)
            assert sorted(job.output()[before:]) == sorted(fired), f"at {clock}"
            between_epochs(job, restart, epoch)
        assert job.timers("alarm", TimeDomain.PROCESSING_TIME) == []


def test_the_manifest_knows_the_next_processing_time_timer() -> None:
    with JobHarness(alarms, inputs=["events"]) as job:
        job.set_processing_time(7)
        job.epoch(events=[("a", "go")])
        assert job.head.next_timer == 107
        assert job.timers("alarm", TimeDomain.PROCESSING_TIME) == [(107, "a")]


def test_pending_processing_time_timers_do_not_fire_when_a_stream_ends() -> None:
    with JobHarness(alarms, inputs=["events"]) as job:
        job.epoch(events=[("a", "go")])
        job.end()
        assert job.output() == []


def test_pending_processing_time_timers_fire_at_the_end_of_a_batch_job() -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        return alarms(env, events).map(lambda r: ("all", r[1])).key_by(0).sum(1)

    with JobHarness(build, inputs=["events"], configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.epoch(events=[("a", "go"), ("b", "go")])
        job.end()
        assert job.output() == [("all", 200)]


class Clock(KeyedProcessFunction):
    """Tells what time it is when a record comes."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value[0], value[1], ctx.timer_service().current_watermark()


def stamped(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    return stream.assign_timestamps_and_watermarks(strategy).set_parallelism(1)


@restarting
def test_event_time_continues_from_where_it_was(restart: str) -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        return stamped(events).key_by(0).process(Clock())

    with harness(build, restart, inputs=["events"]) as job:
        for epoch, events in enumerate([[("a", 10)], [("b", 5)], [], [("a", 20), ("b", 21)], [("b", 30)]]):
            job.epoch(events=events)
            between_epochs(job, restart, epoch)
        assert sorted(job.output()) == [
            ("a", 10, MIN_TIME),
            ("a", 20, 9),
            ("b", 5, 9),
            ("b", 21, 9),
            ("b", 30, 20),
        ]


@restarting
def test_the_slowest_of_two_streams_holds_time_back(restart: str) -> None:
    def build(env: Env, one: DataStream, two: DataStream) -> DataStream:
        return stamped(one).union(stamped(two)).key_by(0).process(Clock()).set_parallelism(1)

    with harness(build, restart, inputs=["one", "two"]) as job:
        for epoch, (one, two) in enumerate([([("a", 10)], []), ([], [("b", 5)]), ([("a", 30)], []), ([], [("b", 20)])]):
            job.epoch(one=one, two=two)
            between_epochs(job, restart, epoch)
        job.epoch(one=[("a", 40)], two=[])
        assert job.output()[-1] == ("a", 40, 19)
        assert [time for _, _, time in job.output()] == [MIN_TIME, MIN_TIME, 4, 4, 19]


class PlainClock(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value[0], value[1], ctx.timer_service().current_watermark()


@restarting
@pytest.mark.parametrize("stamped_first", [True, False])
def test_a_branch_without_watermarks_never_gets_those_of_another(restart: str, stamped_first: bool) -> None:
    """Both branches are chained to the source: each has its own clock, also after a restore."""

    def build(env: Env, events: DataStream) -> DataStream:
        def timely() -> DataStream:
            return stamped(events).process(PlainClock()).set_parallelism(1).map(lambda r: ("timely", *r[1:]))

        def timeless() -> DataStream:
            return events.process(PlainClock()).set_parallelism(1).map(lambda r: ("timeless", *r[1:]))

        branches = [timely(), timeless()] if stamped_first else [timeless(), timely()]
        return branches[0].union(branches[1]).map(lambda r: r).set_parallelism(1)

    with harness(build, restart, inputs=["events"]) as job:
        for epoch, events in enumerate([[("a", 10)], [("a", 20)], [("a", 30)]]):
            job.epoch(events=events)
            between_epochs(job, restart, epoch)
        assert sorted(job.output()) == [
            *(("timeless", time, MIN_TIME) for time in (10, 20, 30)),
            ("timely", 10, MIN_TIME),
            ("timely", 20, 9),
            ("timely", 30, 19),
        ]


@restarting
def test_a_branch_without_watermarks_holds_back_what_it_is_joined_with(restart: str) -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        timeless = events.map(lambda r: ("plain", r[1])).set_parallelism(1)
        return stamped(events).union(timeless).key_by(0).process(Clock()).set_parallelism(1)

    with harness(build, restart, inputs=["events"]) as job:
        for epoch, events in enumerate([[("a", 10)], [("a", 20)], [("a", 30)]]):
            job.epoch(events=events)
            between_epochs(job, restart, epoch)
        assert {time for _, _, time in job.output()} == {MIN_TIME}
