"""Classes that PyFlink programs give types in brackets take as many here, and do the same with and without them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

import cloudpickle
import pytest

from tidemill.datastream import ProcessWindowFunction, TimeWindow, Trigger, TriggerResult, TumblingEventTimeWindows
from tidemill.testing import KeyedHarness

# PyFlink 2.3: how many types a class takes.
BRACKETS = {
    "functions.AllWindowFunction": 3,
    "functions.AsyncFunction": 2,
    "functions.AsyncRetryPredicate": 1,
    "functions.AsyncRetryStrategy": 1,
    "functions.BroadcastProcessFunction": 3,
    "functions.KeyedBroadcastProcessFunction": 4,
    "functions.ProcessAllWindowFunction": 3,
    "functions.ProcessAllWindowFunction.Context": 1,
    "functions.ProcessWindowFunction": 4,
    "functions.ProcessWindowFunction.Context": 1,
    "functions.WindowFunction": 4,
    "state.AggregatingState": 2,
    "state.BroadcastState": 2,
    "state.ListState": 1,
    "state.MapState": 2,
    "state.ReadOnlyBroadcastState": 2,
    "state.ReducingState": 1,
    "state.ValueState": 1,
    "window.MergingWindowAssigner": 2,
    "window.MergingWindowAssigner.MergeCallback": 1,
    "window.Trigger": 2,
    "window.WindowAssigner": 2,
}


@pytest.mark.parametrize("name", BRACKETS)
def test_as_many_types_as_in_pyflink(name: str) -> None:
    module, *path = name.split(".")
    found: Any = importlib.import_module(f"tidemill.datastream.{module}")
    for part in path:
        found = getattr(found, part)
    assert len(found.__parameters__) == BRACKETS[name]
    assert all(isinstance(parameter, TypeVar) for parameter in found.__parameters__)


class Count(ProcessWindowFunction[tuple[str, int], tuple[str, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple[str, int]]
    ) -> Iterable[tuple[str, int]]:
        yield key, len(list(elements))


class Late(Trigger[tuple[str, int], TimeWindow]):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.end + 5)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if time > window.end else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Windows of this test do not merge."""

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """The timer may stay."""


def test_functions_with_types_in_brackets_run() -> None:
    count, late = cloudpickle.loads(cloudpickle.dumps((Count(), Late())))
    with KeyedHarness(
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)).allowed_lateness(10).trigger(late).process(count),
        key_selector=0,
    ) as harness:
        harness.process(("a", 1), 1)
        harness.process(("a", 2), 9)
        harness.watermark(14)
        assert harness.output() == []
        harness.watermark(15)
        assert harness.output() == [("a", 2)]
