"""BATCH mode: one epoch, input by key, time at its end for each key, no state kept; final results as in STREAMING."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tidemill.common import Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.faults import Fault
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME
from tidemill.testing import JobHarness, run_local

Env = StreamExecutionEnvironment

EVENTS = [("b", 5), ("a", 9), ("b", 1), ("a", 2), ("c", 7), ("b", 3)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        timestamp: int = value[1]
        return timestamp


class Diary(KeyedProcessFunction):
    """Writes down what it sees: records with their count in state, timers with theirs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), default_value=0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        yield value[0], "record", value[1], self.count.value(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        if timestamp == 17:
            ctx.timer_service().register_event_time_timer(1000)
            ctx.timer_service().register_processing_time_timer(2000)
        yield ctx.get_current_key(), "timer", timestamp, self.count.value(), ctx.timer_service().current_watermark()


def diary(env: Env) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    events = env.from_collection(EVENTS).assign_timestamps_and_watermarks(strategy)
    return events.key_by(lambda event: event[0]).process(Diary())


def batch(build: Any, **configuration: str) -> list[Any]:
    # A tiny epoch limit: a BATCH job is one epoch all the same.
    settings = {"execution.runtime-mode": "BATCH", **configuration}
    return run_local(build, configuration=settings, max_records=1)


@pytest.mark.parametrize("memory", ["128mb", "1b"], ids=["in-memory", "spilled"])
def test_each_key_is_seen_as_a_whole_in_time_order_and_its_timers_fire_at_its_end(memory: str) -> None:
    entries = batch(diary, **{"execution.sorted-inputs.memory": memory})
    assert {key: [entry[1:] for entry in entries if entry[0] == key] for key in "abc"} == {
        "a": [
            ("record", 2, 1, MIN_TIME),
            ("record", 9, 2, MIN_TIME),
            ("timer", 12, 2, MAX_TIME),
            ("timer", 19, 2, MAX_TIME),
        ],
        "b": [
            ("record", 1, 1, MIN_TIME),
            ("record", 3, 2, MIN_TIME),
            ("record", 5, 3, MIN_TIME),
            ("timer", 11, 3, MAX_TIME),
            ("timer", 13, 3, MAX_TIME),
            ("timer", 15, 3, MAX_TIME),
        ],
        "c": [
            ("record", 7, 1, MIN_TIME),
            ("timer", 17, 1, MAX_TIME),
            ("timer", 1000, 1, MAX_TIME),
            ("timer", 2000, 1, MAX_TIME),
        ],
    }


def test_a_batch_job_is_one_epoch_and_keeps_no_state() -> None:
    configuration = {"execution.runtime-mode": "BATCH"}
    with JobHarness(diary, configuration=configuration, max_records=1) as job:
        job.end()
        assert job.head.epoch == 1
        assert job.head.finished
        assert job.head.pieces == ()
        assert job.head.next_timer is None


def test_a_batch_job_that_fails_starts_from_the_beginning() -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        return events.key_by(0).sum(1)

    with JobHarness(build, inputs=["events"], configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.epoch(events=EVENTS[:3])
        assert job.output() == []
        job.inputs["events"].ended = True
        job.crash(Fault("manifest.before"), events=EVENTS[3:])
        assert job.output() == []
        job.end()
        assert sorted(job.output()) == [("a", 11), ("b", 9), ("c", 7)]


class Match(KeyedCoProcessFunction):
    """Counts orders that have a payment before them in time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.paid = runtime_context.get_state(ValueStateDescriptor("paid", Types.LONG(), default_value=0))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.paid.update(self.paid.value() + value[1])
        return ()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        yield value[0], value[1], self.paid.value()


def test_two_inputs_of_a_key_are_merged_by_time() -> None:
    def build(env: Env) -> DataStream:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
        payments = env.from_collection([("a", 4), ("b", 2), ("a", 1)]).assign_timestamps_and_watermarks(strategy)
        orders = env.from_collection([("a", 5), ("b", 1), ("a", 2)]).assign_timestamps_and_watermarks(strategy)
        return payments.connect(orders).key_by(0, 0).process(Match())

    assert sorted(batch(build)) == [("a", 2, 1), ("a", 5, 5), ("b", 1, 0)]


def test_final_results_are_those_of_a_stream() -> None:
    def last(build: Any, mode: str) -> dict[Any, Any]:
        rows = run_local(build, configuration={"execution.runtime-mode": mode}, max_records=2)
        return dict(rows)

    def largest_sum(env: Env) -> DataStream:
        return env.from_collection(EVENTS).key_by(0).sum(1).key_by(0).max(1)

    assert last(largest_sum, "BATCH") == last(largest_sum, "STREAMING") == {"a": 11, "b": 9, "c": 7}
