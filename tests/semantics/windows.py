"""What the tests of windows share: functions that show what they see, and a look at what is left."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream import (
    AggregateFunction,
    DataStream,
    KeyedStream,
    ProcessWindowFunction,
    WindowAssigner,
    WindowedStream,
    WindowFunction,
)
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.testing import KeyedHarness

Step = list[tuple[str, int, int]] | int  # records as (key, number, timestamp), or a watermark


class Show(WindowFunction):
    """The key, the extent of the window, and the numbers in it."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, window.start, window.end, [number for _, number in inputs]


class Numbers(WindowFunction):
    """The numbers in the window alone."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield [number for _, number in inputs]


class ShowProcess(ProcessWindowFunction):
    """As :class:`Show`."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, context.window().start, context.window().end, [number for _, number in elements]


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def joined(one: Any, two: Any) -> Any:
    """A reduce function for which the order matters."""
    return one[0], f"{one[1]},{two[1]}"


def windows(
    assigner: WindowAssigner, then: Callable[[WindowedStream], DataStream] | None = None, **options: Any
) -> KeyedHarness:
    """A harness of windows over pairs of a key and a number; shows what is in each window that fires."""

    def build(keyed: KeyedStream) -> DataStream:
        windowed = keyed.window(assigner)
        return windowed.apply(Show()) if then is None else then(windowed)

    return KeyedHarness(build, key_selector=0, **options)


def push(harness: KeyedHarness, *timestamps: int, key: str = "a") -> None:
    """Records whose number is their timestamp."""
    for timestamp in timestamps:
        harness.process((key, timestamp), timestamp=timestamp)


def dropped(harness: KeyedHarness) -> int:
    """How many late records were dropped."""
    return harness._chain.operators[0].context.metrics.counters["numLateRecordsDropped"].count


def left(harness: KeyedHarness) -> int:
    """How many entries of state and how many timers there are, after a checkpoint."""
    harness.checkpoint()
    backend = harness._backend()
    return backend.entries()


def random_steps(rng: random.Random) -> list[Step]:
    """Batches of records around a time that advances, with watermarks between them that are often too early."""
    steps: list[Step] = []
    now = rng.choice([-50, 0, 1000])
    watermark = MIN_TIME
    for number in range(rng.randint(3, 25)):
        batch = []
        for index in range(rng.randint(1, 6)):
            timestamp = now + rng.randint(-25, 10)
            batch.append((rng.choice("abc"), 100 * number + index, timestamp))
        steps.append(batch)
        now += rng.randint(0, 8)
        if rng.random() < 0.6:
            watermark = max(watermark, now - rng.randint(0, 20))
            steps.append(watermark)
    return [*steps, MAX_TIME]


def feed(harness: KeyedHarness, step: Step) -> None:
    if isinstance(step, int):
        harness.watermark(step)
    else:
        values = [(key, number) for key, number, _ in step]
        batch = Batch(values, [timestamp for *_, timestamp in step], [key for key, *_ in step])
        harness._chain.head.process(batch, 0)
