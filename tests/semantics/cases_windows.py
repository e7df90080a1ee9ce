"""D, E and B5 over several subtasks and exchanges: windows, joins and asynchronous calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.semantics.case import Case
from tests.semantics.cases_basic import first
from tests.semantics.cases_state import SecondField
from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    JoinFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from tidemill.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

Env = StreamExecutionEnvironment

#: (key, time, number), out of order by less than 100 ms.
READINGS = [("a", 10, 1), ("b", 90, 2), ("a", 40, 3), ("a", 260, 4), ("b", 210, 5), ("a", 990, 6), ("b", 910, 7)]


def readings(env: Env, rows: list[Any] = READINGS) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    return env.from_collection(rows).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def summed(one: Any, other: Any) -> Any:
    return one[0], max(one[1], other[1]), one[2] + other[2]


class WithWindow(ProcessWindowFunction):
    """The numbers of a window, with where it begins and ends."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, sorted(number for _, _, number in elements)


class Both(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[0], first[2], second[2]


class Near(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield left[0], left[2], right[2], ctx.get_timestamp()


class Doubled(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [(value[0], value[2] * 2)]


TENTHS = TumblingEventTimeWindows.of(Duration.of_millis(100))

CASES = [
    Case(
        "tumbling-windows",
        lambda env: readings(env).key_by(lambda r: r[0]).window(TENTHS).reduce(summed),
        [("a", 40, 4), ("a", 260, 4), ("a", 990, 6), ("b", 90, 2), ("b", 210, 5), ("b", 910, 7)],
        first,
        spark=True,
    ),
    Case(
        "sliding-windows",
        lambda env: (
            readings(env)
            .key_by(lambda r: r[0])
            .window(SlidingEventTimeWindows.of(Duration.of_millis(400), Duration.of_millis(200)))
            .process(WithWindow())
        ),
        [
            ("a", -200, 200, [1, 3]),
            ("a", 0, 400, [1, 3, 4]),
            ("a", 200, 600, [4]),
            ("a", 600, 1000, [6]),
            ("a", 800, 1200, [6]),
            ("b", -200, 200, [2]),
            ("b", 0, 400, [2, 5]),
            ("b", 200, 600, [5]),
            ("b", 600, 1000, [7]),
            ("b", 800, 1200, [7]),
        ],
        first,
    ),
    Case(
        "session-windows",
        lambda env: (
            readings(env)
            .key_by(lambda r: r[0])
            .window(EventTimeSessionWindows.with_gap(Duration.of_millis(200)))
            .process(WithWindow())
        ),
        [
            ("a", 10, 240, [1, 3]),
            ("a", 260, 460, [4]),
            ("a", 990, 1190, [6]),
            ("b", 90, 410, [2, 5]),
            ("b", 910, 1110, [7]),
        ],
        first,
        spark=True,
    ),
    Case(
        "windows-over-windows",
        lambda env: (
            readings(env)
            .key_by(lambda r: r[0])
            .window(TENTHS)
            .reduce(summed)
            .map(lambda r: ("all", r[2]), Types.TUPLE([Types.STRING(), Types.LONG()]))
            .window_all(TumblingEventTimeWindows.of(Duration.of_millis(500)))
            .reduce(lambda one, other: (one[0], one[1] + other[1]))
        ),
        [("all", 15), ("all", 13)],
        first,
        spark=True,
    ),
    Case(
        "window-join",
        lambda env: (
            readings(env)
            .join(readings(env))
            .where(lambda r: r[0])
            .equal_to(lambda r: r[0])
            .window(TENTHS)
            .apply(Both())
        ),
        [
            *[("a", one, other) for one in (1, 3) for other in (1, 3)],
            ("a", 4, 4),
            ("a", 6, 6),
            ("b", 2, 2),
            ("b", 5, 5),
            ("b", 7, 7),
        ],
        spark=True,
    ),
    Case(
        "interval-join",
        lambda env: (
            readings(env)
            .key_by(lambda r: r[0])
            .interval_join(readings(env).key_by(lambda r: r[0]))
            .between(Duration.of_millis(-50), Duration.of_millis(-10))
            .process(Near())
        ),
        [("a", 3, 1, 40)],
        spark=True,
    ),
    Case(
        "async-calls",
        lambda env: AsyncDataStream.ordered_wait(readings(env), Doubled(), Duration.of_seconds(10)),
        [(key, 2 * number) for key, _, number in READINGS],
        spark=True,
    ),
]
