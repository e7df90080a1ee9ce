"""Windows that can go a fast way against the same windows that go the general one: the results are the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.semantics.windows import Show, Step, dropped, feed, joined, left, random_steps, windows
from tests.thorough import how_many
from tidemill.common import Types
from tidemill.datastream import (
    AggregateFunction,
    DataStream,
    EventTimeSessionWindows,
    OutputTag,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.datastream.window import EventTimeTrigger
from tidemill.errors import UserCodeError
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.operators.windowing.aligned import AlignedWindowOperator
from tidemill.runtime.operators.windowing.merging import MergingWindowOperator
from tidemill.runtime.operators.windowing.operator import WindowOperator
from tidemill.runtime.operators.windowing.sessions import SessionWindowOperator
from tidemill.testing import Snapshot

LATE = OutputTag("late")
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
FUNCTIONS = ["reduce", "typed reduce", "reduce in place", "aggregate", "apply", "process"]


class Same(EventTimeTrigger):
    """The event time trigger, but not known to be it: records go the general way."""


class Listed(AggregateFunction):
    """Tells in which order accumulators were added to and merged."""

    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return (*accumulator, value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a, acc_b)


class Counting(ProcessWindowFunction):
    """Tells how often windows of the key were evaluated, and how many are gone."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        fired, gone = self._counts(context)
        fired.update(fired.value() + 1)
        yield key, context.window(), list(elements), fired.value(), gone.value(), context.current_watermark()

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        gone = self._counts(context)[1]
        gone.update(gone.value() + 1)

    def _counts(self, context: ProcessWindowFunction.Context) -> list[Any]:
        store = context.global_state()
        return [store.get_state(ValueStateDescriptor(name, Types.LONG(), 0)) for name in ("fired", "gone")]


def appended(one: Any, two: Any) -> Any:
    """A reduce function that changes its argument."""
    one[1].extend(two[1])
    return one


def gap_after(record: Any) -> int:
    """A gap that differs from record to record."""
    number = record[1][0] if isinstance(record[1], list) else record[1]
    return int(1 + 5 * (number % 4))


def with_function(windowed: Any, how: str) -> DataStream:
    stream: DataStream
    if how == "aggregate":
        stream = windowed.aggregate(Listed())
    elif how == "apply":
        stream = windowed.apply(Show())
    elif how == "process":
        stream = windowed.process(Counting())
    elif how == "typed reduce":
        stream = windowed.reduce(lambda one, two: (one[0], 3 * one[1] + two[1]))
    else:
        stream = windowed.reduce(appended if how == "reduce in place" else joined)
    return stream


class Way:
    """One way through the windows: all subtasks of one operator, at a parallelism that changes."""

    def __init__(self, assigner: Any, how: str, lateness: int, trigger: EventTimeTrigger, kind: type) -> None:
        def run(windowed: Any) -> DataStream:
            windowed = windowed.allowed_lateness(lateness).trigger(trigger)
            return with_function(windowed.side_output_late_data(LATE) if lateness else windowed, how)

        self.in_lists = how == "reduce in place"
        self.subtasks = [windows(assigner, run, types=[PAIR] if how == "typed reduce" else [])]
        assert type(self.subtasks[0]._chain.head) is kind

    def feed(self, step: Step) -> None:
        for harness in self.subtasks:
            if isinstance(step, int):
                feed(harness, step)
                continue
            backend = harness._backend()
            mine = [record for record in step if backend.group_of(record[0]) in backend.groups]
            values: list[Any] = [[key, [number]] if self.in_lists else (key, number) for key, number, _ in mine]
            batch = Batch(values, [timestamp for *_, timestamp in mine], [key for key, *_ in mine])
            harness._chain.head.process(batch, 0)

    def seen(self) -> list[Any]:
        """All that has come out."""
        return [
            (harness.output_with_timestamps(), harness.side_output_with_timestamps(LATE), dropped(harness))
            for harness in self.subtasks
        ]

    def committed(self) -> list[Any]:
        """All that is in state, and all timers, after a checkpoint."""
        found = []
        for harness in self.subtasks:
            harness.checkpoint()
            backend = harness._backend()
            state = sorted(f"{name} {entry}" for name in backend.state_names() for entry in backend.scan(name))
            found.append((state, list(backend.event_timers.pending())))
        return found

    def timers(self) -> list[Any]:
        """All timers, in the middle of an epoch."""
        return [list(harness._settled().event_timers.pending()) for harness in self.subtasks]

    def snapshot(self) -> Snapshot:
        return Snapshot.of_all([harness.snapshot() for harness in self.subtasks])

    def restore(self, snapshot: Snapshot, parallelism: int) -> None:
        before = self.subtasks
        self.subtasks = [
            before[0].restore(snapshot, parallelism=parallelism, subtask=subtask) for subtask in range(parallelism)
        ]
        for harness in before:
            harness.close()

    def close(self) -> int:
        """How much is left in state."""
        entries = sum(left(harness) for harness in self.subtasks)
        for harness in self.subtasks:
            harness.close()
        return entries


def steps_near_the_watermark(rng: random.Random) -> list[Step]:
    """Small batches of which many records are just in time, or just too late."""
    steps: list[Step] = []
    watermark = rng.choice([-50, 0, 1000])
    for number in range(rng.randint(20, 80)):
        back, ahead, records = rng.choice([(18, 9, 4), (11, 2, 1), (11, 2, 1), (0, 25, 2)])
        steps.append(
            [
                (rng.choice("abc"), 100 * number + index, watermark + rng.randint(-back, ahead))
                for index in range(records)
            ]
        )
        if rng.random() < 0.7:
            watermark += rng.choice([1, 3, 8])
            steps.append(watermark)
    return [*steps, MAX_TIME]


def compare(rng: random.Random, assigner: Any, how: str, fast_kind: type, general_kind: type) -> None:
    lateness = rng.choice([0, 6, 15])
    pace = rng.choice([1, 5])  # epochs are short or long
    fast = Way(assigner, how, lateness, EventTimeTrigger(), fast_kind)
    general = Way(assigner, how, lateness, Same(), general_kind)
    for step in rng.choice([random_steps, steps_near_the_watermark])(rng):
        for way in (fast, general):
            way.feed(step)
        assert fast.seen() == general.seen()
        what = rng.random() * pace
        if what < 0.05:
            assert fast.timers() == general.timers()
        elif what < 0.15:
            assert fast.committed() == general.committed()
        elif what < 0.22:
            # Each resumes from what the other has written, at another parallelism, sometimes with time gone back.
            snapshots = fast.snapshot(), general.snapshot()
            watermark = rng.choice([snapshots[0].watermark, snapshots[0].watermark - 10])
            parallelism = rng.choice([1, 1, 2, 3])
            fast.restore(replace(snapshots[1], watermark=max(watermark, MIN_TIME)), parallelism)
            general.restore(replace(snapshots[0], watermark=max(watermark, MIN_TIME)), parallelism)
            assert fast.seen() == general.seen()
    assert fast.committed() == general.committed()
    entries = fast.close(), general.close()
    assert entries[0] == entries[1]
    assert how == "process" or entries[0] == 0


@pytest.mark.parametrize("seed", range(how_many(9, 18)))
def test_tumbling_and_sliding_windows(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([4, 10])
    slide = rng.choice([size, size, 2, 3])
    offset = rng.choice([0, 1, -1])
    assigner: Any = (
        TumblingEventTimeWindows.of(size, offset) if slide == size else SlidingEventTimeWindows.of(size, slide, offset)
    )
    compare(rng, assigner, FUNCTIONS[seed % len(FUNCTIONS)], AlignedWindowOperator, WindowOperator)


@pytest.mark.parametrize("seed", range(how_many(12, 36)))
def test_sessions(seed: int) -> None:
    rng = random.Random(seed)
    gap = rng.choice([1, 3, 6, 12])
    of = EventTimeSessionWindows
    assigner = of.with_gap(gap) if rng.random() < 0.7 else of.with_dynamic_gap(gap_after)
    compare(rng, assigner, FUNCTIONS[seed % len(FUNCTIONS)], SessionWindowOperator, MergingWindowOperator)


# --- errors


def fail_on(number: int) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value[1] == number:
            raise ValueError(f"cannot take {number}")
        return value

    return check


class Strict(Listed):
    """Fails with one number, and when accumulators merge."""

    def add(self, value: Any, accumulator: Any) -> Any:
        return super().add(fail_on(13)(value), accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise ValueError("cannot merge")


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), Same()])
@pytest.mark.parametrize(
    ("records", "message", "number"),
    [
        ([("a", 1, 0), ("b", 13, 0), ("b", 2, 0)], "cannot take 13", 13),
        ([("a", 1, 0), ("b", 1, 0), ("b", 2, 15), ("b", 3, 8)], "cannot merge", 3),
        ([("a", 1, 0), ("b", 1, 0), ("b", 13, 15), ("b", 3, 8)], "cannot take 13", 13),
    ],
)
def test_an_error_names_the_record_in_both_ways(
    trigger: EventTimeTrigger, records: list[tuple[str, int, int]], message: str, number: int
) -> None:
    with windows(
        EventTimeSessionWindows.with_gap(10), lambda windowed: windowed.trigger(trigger).aggregate(Strict())
    ) as harness:
        with pytest.raises(UserCodeError) as caught:
            feed(harness, records)
        assert f"ValueError: {message}" in str(caught.value)
        assert f"while processing record ('b', {number}), key 'b'" in str(caught.value)


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), Same()])
def test_a_gap_that_cannot_be_computed_names_the_record_in_both_ways(trigger: EventTimeTrigger) -> None:
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda value: 0 if value[1] == 13 else 10)
    with windows(assigner, lambda windowed: windowed.trigger(trigger).apply(Show())) as harness:
        with pytest.raises(UserCodeError) as caught:
            feed(harness, [("a", 1, 0), ("b", 13, 0), ("a", 2, 0)])
        assert "must be above 0" in str(caught.value)
        assert "while processing record ('b', 13), key 'b'" in str(caught.value)


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), Same()])
@pytest.mark.parametrize("how", ["reduce", "aggregate"])
def test_none_empties_a_session_in_both_ways(trigger: EventTimeTrigger, how: str) -> None:
    assigner = EventTimeSessionWindows.with_gap(10)
    with windows(assigner, lambda windowed: with_function(windowed.trigger(trigger), how)) as harness:
        values = [("a", 1), ("a", 2), None, ("b", 3), None, ("b", 4)]
        harness._chain.head.process(Batch(values, [0, 1, 2, 0, 1, 2], list("aaabbb")), 0)
        assert sorted(harness.timers()) == [(11, "a"), (11, "b")]
        harness.watermark(MAX_TIME)
        assert harness.output() == [("b", 4) if how == "reduce" else (4,)]
        assert left(harness) == 0
