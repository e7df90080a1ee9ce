"""Joins over random lives of a job: equal to looking at all pairs there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.semantics.restarts import Life, Record, entries_left, harness, live, lives, lives_of_a_job, stamped, streams
from tidemill.datastream import (
    CoGroupFunction,
    DataStream,
    JoinFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from tidemill.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

Env = StreamExecutionEnvironment
GAP = 6


class Pair(JoinFunction):
    def join(self, first: Record, second: Record) -> Any:
        return first[2], second[2]


class Groups(CoGroupFunction):
    """Who is together in a window."""

    def co_group(self, first: Iterable[Record], second: Iterable[Record]) -> Iterable[Any]:
        yield tuple(sorted(record[2] for record in first)), tuple(sorted(record[2] for record in second))


class Near(ProcessJoinFunction):
    def process_element(self, left: Record, right: Record, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        assert ctx.get_timestamp() == max(left[1], right[1])
        yield left[2], right[2]


def program(lower: int, upper: int) -> Any:
    def build(env: Env, left: DataStream, right: DataStream) -> dict[str, DataStream]:
        one, other = stamped(left), stamped(right)

        def in_windows(streams: Any, assigner: Any, function: Any) -> DataStream:
            stream: DataStream = streams.where(0).equal_to(0).window(assigner).apply(function)
            return stream

        return {
            "tumbling": in_windows(one.join(other), TumblingEventTimeWindows.of(10), Pair()),
            "sliding": in_windows(one.co_group(other), SlidingEventTimeWindows.of(12, 5), Groups()),
            "sessions": in_windows(one.co_group(other), EventTimeSessionWindows.with_gap(GAP), Groups()),
            "interval": one.key_by(0).interval_join(other.key_by(0)).between(lower, upper).process(Near()),
        }

    return build


def windows(kind: str, left: list[Record], right: list[Record]) -> Iterable[tuple[list[Record], list[Record]]]:
    """The records of both sides in each window of each key."""
    for key in {record[0] for record in left + right}:
        sides = [[record for record in side if record[0] == key] for side in (left, right)]
        times = sorted({record[1] for side in sides for record in side})
        spans: list[tuple[int, int]] = []
        if kind == "sessions":
            for at in times:
                joined = bool(spans) and at <= spans[-1][1]
                spans[len(spans) - joined :] = [(spans[-1][0] if joined else at, at + GAP)]
        else:
            size, slide = (10, 10) if kind == "tumbling" else (12, 5)
            spans = [(start, start + size) for start in range(-100, times[-1] + 1, slide)]
        for start, end in spans:
            ones, others = ([record for record in side if start <= record[1] < end] for side in sides)
            if ones or others:
                yield ones, others


def numbers(records: Iterable[Record]) -> tuple[int, ...]:
    return tuple(sorted(number for *_, number in records))


@lives
@given(streams(), streams(), st.integers(-15, 10), st.integers(0, 15), lives_of_a_job())
def test_joins(left: list[Record], right: list[Record], lower: int, width: int, life: Life) -> None:
    upper = lower + width
    with harness(program(lower, upper), ["left", "right"], life) as job:
        live(job, life, left=left, right=right)
        job.end()
        assert {name: Counter(job.output(name)) for name in ("tumbling", "sliding", "sessions", "interval")} == {
            "tumbling": Counter(
                (one[2], other[2])
                for ones, others in windows("tumbling", left, right)
                for one, other in product(ones, others)
            ),
            "sliding": Counter((numbers(one), numbers(other)) for one, other in windows("sliding", left, right)),
            "sessions": Counter((numbers(one), numbers(other)) for one, other in windows("sessions", left, right)),
            "interval": Counter(
                (one[2], other[2])
                for one, other in product(left, right)
                if one[0] == other[0] and lower <= other[1] - one[1] <= upper
            ),
        }
        assert entries_left(job) == {}
