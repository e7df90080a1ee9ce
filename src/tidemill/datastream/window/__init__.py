"""Window assigners, triggers and evictors, under PyFlink's path.

Start with ``assigners.py``; session windows are in ``sessions.py``. ``trigger.py`` is the interface of triggers,
``triggers.py`` has the built-in ones, and ``nested_triggers.py`` those that wrap another trigger.

The operators that evaluate windows are in ``tidemill.runtime.operators.windowing``. ``tidemill.graph.window_kinds``
stores the class names of triggers in manifests: a renamed trigger is another trigger to a job that restarts.
"""

from __future__ import annotations

from tidemill.datastream.window.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidemill.datastream.window.evictors import (
    CountEvictor,
    DeltaEvictor,
    DeltaFunction,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from tidemill.datastream.window.nested_triggers import ProcessingTimeoutTrigger, PurgingTrigger
from tidemill.datastream.window.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from tidemill.datastream.window.trigger import Trigger, TriggerResult
from tidemill.datastream.window.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from tidemill.datastream.window.types import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaFunction",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]


class TimeWindowSerializer:
    """Unused. It exists because custom assigners for PyFlink return one; Tidemill stores windows in its own format."""


class CountWindowSerializer:
    """Unused. It exists because custom assigners for PyFlink return one; Tidemill stores windows in its own format."""


class GlobalWindowSerializer:
    """Unused. It exists because custom assigners for PyFlink return one; Tidemill stores windows in its own format."""
