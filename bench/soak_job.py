"""The job of the soak test: many operators with chains, exchanges, keyed state, timers, windows and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.jobs import DiscardingSink
from tidemill.common import Time, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import DataStream, StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.state import ValueState, ValueStateDescriptor
from tidemill.metrics import Counter

#: Operators before the branches, and in each branch.
_SHARED, _IN_BRANCH = 3, 6
_KEYS = 50
_PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class _Millis(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class _Counting(KeyedProcessFunction):
    """Counts records per key, and registers a timer for each record, which emits its timestamp."""

    seen: ValueState[int]
    fired: Counter

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.fired = runtime_context.get_metrics_group().counter("fired")

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        self.seen.update((self.seen.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[int, int]]:
        self.fired.inc()
        yield ctx.get_current_key(), timestamp


def branches_of(operators: int) -> int:
    """The number of branches that results in about ``operators`` operators."""
    return max(1, round((operators - _SHARED) / _IN_BRANCH))


def build(env: StreamExecutionEnvironment, operators: int) -> None:
    """Build a program of about ``operators`` operators that never ends."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Millis())
    numbers = env.from_sequence(1, 10**15).uid("numbers").map(lambda n: (n % _KEYS, n), _PAIR).uid("pairs")
    timed = numbers.assign_timestamps_and_watermarks(times).uid("times")
    for branch in range(branches_of(operators)):
        _branch(timed, f"branch-{branch}")


def _branch(timed: DataStream, name: str) -> None:
    counted = timed.key_by(lambda pair: pair[0], Types.LONG()).process(_Counting(), _PAIR).uid(f"{name}-counted")
    kept = counted.map(lambda pair: (pair[0] % 10, pair[1]), _PAIR).uid(f"{name}-tens")
    kept = kept.filter(lambda pair: pair[1] % 7 != 0).uid(f"{name}-kept")
    windows = kept.key_by(lambda pair: pair[0], Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    latest = windows.reduce(lambda one, two: max(one, two, key=lambda pair: pair[1])).uid(f"{name}-latest")
    latest.map(lambda pair: pair[1]).uid(f"{name}-times").sink_to(DiscardingSink()).uid(f"{name}-sink")
