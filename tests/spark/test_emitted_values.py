"""Records on Spark are as they were when they were emitted, also where an epoch has to be run again for it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from tests.spark.jobs import collected, environment
from tidemill.datastream import FlatMapFunction, MapFunction

pytestmark = pytest.mark.usefixtures("spark")


class Buffered(FlatMapFunction):
    """Collects two records, yields them, and uses the list again."""

    def open(self, runtime_context: Any) -> None:
        self.buf: list[int] = []

    def flat_map(self, value: int) -> Iterable[Any]:
        self.buf.append(value)
        if len(self.buf) == 2:
            yield "pair", self.buf
            self.buf.clear()


class Late(Buffered):
    """Emits numbers at first."""

    def flat_map(self, value: int) -> Iterable[Any]:
        if value < 20:
            yield value
        else:
            yield from super().flat_map(value)


class Reused(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.event: dict[str, int] = {}

    def map(self, value: int) -> dict[str, int]:
        self.event["n"] = value
        return self.event


def marked(event: dict[str, Any]) -> dict[str, Any]:
    event["marked"] = True
    return event


def test_objects_that_are_used_again() -> None:
    env = environment({"parallelism.default": "1"})
    numbers = env.from_collection(list(range(6)))
    pairs = numbers.flat_map(Buffered()).key_by(lambda pair: pair[0]).map(lambda pair: pair)
    assert collected(pairs) == [("pair", [0, 1]), ("pair", [2, 3]), ("pair", [4, 5])]
    env = environment({"parallelism.default": "1"})
    events = env.from_collection(list(range(3))).map(Reused())
    both = events.map(marked).union(events.key_by(lambda event: event["n"]).map(lambda event: event))
    found = sorted(collected(both), key=lambda event: (len(event), event["n"]))
    assert found == [{"n": n} for n in range(3)] + [{"n": n, "marked": True} for n in range(3)]


def test_an_epoch_is_run_again_for_an_operator_that_emits_lists_only_later(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    env = environment({"parallelism.default": "1", "execution.epoch.max-records": "10"})
    late = env.from_collection(list(range(24))).flat_map(Late()).name("late")
    assert collected(late) == [*range(20), ("pair", [20, 21]), ("pair", [22, 23])]
    assert any("is run again: operator 'late'" in record.getMessage() for record in caplog.records)
