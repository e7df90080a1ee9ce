"""The kind of an operator's windows, which must be compatible with the windows that are open at a restart.

An open window consists of the state in its namespace and the timers that make it fire. A changed size, gap or slide
does not affect windows that are already open: each still fires at its own end. A different kind of window would not
find their state, or would rely on different timers.
"""

from __future__ import annotations

from typing import Any

from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.assigners import FixedTimeWindows, GlobalWindows, MergingWindowAssigner
from tidemill.datastream.window.nested_triggers import ProcessingTimeoutTrigger, PurgingTrigger

__all__ = ["describe_windows", "window_changes"]

#: A user-defined assigner or trigger, of which nothing else is known.
_OWN = "own"
_WORDS = {
    "of": {
        "time": "time windows",
        "sessions": "sessions",
        "global": "a global window",
        _OWN: "windows of a user-defined assigner",
    },
    "time": {"event": "event time", "processing": "processing time"},
    "merging": {True: "windows that merge", False: "windows that do not merge"},
    "trigger": {_OWN: "a user-defined trigger"},
}


def describe_windows(spec: Any) -> dict[str, Any] | None:
    """Describe the windows of an operator as plain JSON data; None if it has none.

    >>> from tidemill.common import Time
    >>> from tidemill.datastream.window import EventTimeTrigger, TumblingEventTimeWindows
    >>> describe_windows(WindowSpec(TumblingEventTimeWindows.of(Time.seconds(5)), EventTimeTrigger.create()))
    {'of': 'time', 'time': 'event', 'merging': False, 'trigger': 'EventTimeTrigger'}
    """
    if not isinstance(spec, WindowSpec):
        return None
    assigner = spec.assigner
    return {
        "of": _windows_of(assigner),
        "time": "event" if assigner.is_event_time() else "processing",
        "merging": isinstance(assigner, MergingWindowAssigner),
        "trigger": _trigger(spec.trigger),
    }


def window_changes(stored: dict[str, Any], declared: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the differences that would make open windows unreadable, as (stored, declared) in words."""
    return [
        (_words(name, stored[name]), _words(name, declared[name]))
        for name in ("of", "merging", "time", "trigger")
        if stored.get(name) != declared[name]
        # A user-defined assigner may create windows of any kind.
        and not (name == "of" and _OWN in (stored[name], declared[name]))
    ]


def _windows_of(assigner: Any) -> str:
    if isinstance(assigner, FixedTimeWindows):
        return "time"
    if isinstance(assigner, GlobalWindows):
        return "global"
    if not _is_built_in(assigner):
        return _OWN
    return "sessions" if isinstance(assigner, MergingWindowAssigner) else type(assigner).__name__


def _trigger(trigger: Any) -> str:
    if isinstance(trigger, PurgingTrigger):  # has neither state nor timers
        return _trigger(trigger.nested_trigger)
    if isinstance(trigger, ProcessingTimeoutTrigger):
        return f"{type(trigger).__name__}({_trigger(trigger.nested_trigger)})"
    return type(trigger).__name__ if _is_built_in(trigger) else _OWN


def _is_built_in(part: Any) -> bool:
    return type(part).__module__.startswith("tidemill.datastream.")


def _words(name: str, value: Any) -> str:
    words: dict[Any, str] = _WORDS[name]  # type: ignore[assignment]
    return words.get(value, str(value))
