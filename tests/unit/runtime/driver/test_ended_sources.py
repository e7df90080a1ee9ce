"""A source that ends while others continue no longer holds event time back, as in Flink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.common import WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from tidemill.testing import JobHarness


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        timestamp: int = value[1]
        return timestamp


class Echo(KeyedProcessFunction):
    """Says the time of each record one millisecond later."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value[1] + 1)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield timestamp


def build(env: StreamExecutionEnvironment, live: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    fixed = env.from_collection([("k", 5)]).assign_timestamps_and_watermarks(strategy)
    return live.assign_timestamps_and_watermarks(strategy).union(fixed).key_by(0).process(Echo()).uid("echo")


def test_timers_go_by_the_sources_that_are_left() -> None:
    with JobHarness(build, inputs=["live"], parallelism=1) as job:
        for time in (10, 20, 30):
            job.epoch(live=[("k", time)])
        assert job.output() == [6, 11, 21]
        job.restart()
        job.epoch(live=[("k", 40)])
        assert job.output() == [6, 11, 21, 31]
        job.end()
        assert job.output() == [6, 11, 21, 31, 41]
