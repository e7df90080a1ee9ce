"""Functions over connected streams with timers: both kinds of function know the same, except for the key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tidemill.common import Types
from tidemill.datastream import (
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedStream,
    RuntimeContext,
    TimeDomain,
    ValueStateDescriptor,
)
from tidemill.errors import StateError
from tidemill.testing import KeyedHarness, OperatorHarness


class Expect(CoProcessFunction):
    """A payment must follow its order within 10 ms."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        due = (ctx.timestamp() or 0) + 10
        self.due.update(due)
        ctx.timer_service().register_event_time_timer(due)
        yield from ()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().delete_event_time_timer(self.due.value())
        yield "paid", value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: CoProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield "missed", timestamp, ctx.timestamp(), ctx.time_domain()


def test_a_co_process_function_on_keyed_streams_has_state_and_timers() -> None:
    with KeyedHarness(Expect(), key_selector=lambda value: value) as harness:
        harness.process("a", 1)
        harness.process("b", 2)
        harness.watermark(5)
        harness.checkpoint()
        harness.process("b", 7, stream=2)
        harness.watermark(100)
        assert harness.output_with_timestamps() == [
            (("paid", "b", 7, 5), 7),
            (("missed", 11, 11, TimeDomain.EVENT_TIME), 11),
        ]


def test_a_keyed_co_process_function_also_knows_the_key_in_a_timer() -> None:
    class Remind(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
            ctx.timer_service().register_event_time_timer(20)
            yield ctx.get_current_key(), value

        def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
            ctx.timer_service().register_processing_time_timer(5)
            yield ctx.get_current_key(), value

        def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any]:
            yield ctx.get_current_key(), timestamp, ctx.time_domain()

    with KeyedHarness(Remind(), key_selector=lambda value: value % 10) as harness:
        harness.process(13, 1)
        harness.process(25, 2, stream=2)
        harness.set_processing_time(5)
        harness.watermark(20)
        assert harness.output() == [
            (3, 13),
            (5, 25),
            (5, 5, TimeDomain.PROCESSING_TIME),
            (3, 20, TimeDomain.EVENT_TIME),
        ]


def test_without_keys_there_are_no_timers() -> None:
    class Sets(CoProcessFunction):
        def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
            ctx.timer_service().register_event_time_timer(1)
            yield value

        def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
            yield value, ctx.timestamp()

    with OperatorHarness(Sets()) as harness:
        harness.process(1, 5, stream=2)
        assert harness.output() == [(1, 5)]
        with pytest.raises(StateError, match=r"key_by\(\)"):
            harness.process(1)


def test_only_a_function_of_two_streams_will_do() -> None:
    def build(left: KeyedStream, right: KeyedStream) -> DataStream:
        return ConnectedStreams(left, right).process(str)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="a CoProcessFunction or a KeyedCoProcessFunction"):
        KeyedHarness(build, key_selector=0)
