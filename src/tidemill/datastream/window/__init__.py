"""Window assigners, triggers and evictors, under PyFlink's path.

Start with ``assigners.py``; session windows are in ``sessions.py``. ``trigger.py`` is the interface of triggers,
``triggers.py`` has the built-in ones, and ``nested_triggers.py`` those that wrap another trigger.

The operators that evaluate windows are in ``tidemill.runtime.operators.windowing``. ``tidemill.graph.window_kinds``
stores the class names of triggers in manifests: a renamed trigger is another trigger to a job that restarts. A trigger
that wraps another one is described there.
"""

from __future__ import annotations

from tidemill.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from tidemill.common.serializer import TypeSerializer
from tidemill.common.time import Time
from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.basic import ReduceFunction
from tidemill.datastream.functions.state import ReducingState, State
from tidemill.datastream.functions.state_descriptors import (
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.datastream.output_tag import OutputTag
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
from tidemill.metrics.metricbase import MetricGroup

__all__ = [
    "MAX_LONG_VALUE",
    "MIN_LONG_VALUE",
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
    "MetricGroup",
    "NeverTrigger",
    "OutputTag",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "State",
    "StateDescriptor",
    "Time",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TypeSerializer",
    "Types",
    "ValueStateDescriptor",
    "Window",
    "WindowAssigner",
]


class TimeWindowSerializer:
    """Unused. It exists because custom assigners for PyFlink return one; Tidemill stores windows in its own format."""


class CountWindowSerializer:
    """Unused. It exists because custom assigners for PyFlink return one; Tidemill stores windows in its own format."""


class GlobalWindowSerializer:
    """Unused. It exists because custom assigners for PyFlink return one; Tidemill stores windows in its own format."""
