"""What kind of windows an operator has: what the windows that are open at a restart must have in common with it.

Open windows are state under the window itself, and the timers that let them fire. Another size, gap or slide leaves
them as they are: each still fires at its own end. Another kind of window does not look for them, or has set other
timers.
"""

from __future__ import annotations

from typing import Any

from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.assigners import FixedTimeWindows, GlobalWindows, MergingWindowAssigner
from tidemill.datastream.window.nested_triggers import ProcessingTimeoutTrigger, PurgingTrigger

__all__ = ["describe_windows", "window_changes"]

#: What a program brings itself, of which nothing is known but that.
_OWN = "own"
_WORDS = {
    "of": {
        "time": "windows of time",
        "sessions": "sessions",
        "global": "a window without end",
        _OWN: "windows by an assigner of the program",
    },
    "time": {"event": "event time", "processing": "processing time"},
    "merging": {True: "windows that merge", False: "windows that do not merge"},
    "trigger": {_OWN: "a trigger of the program"},
}


def describe_windows(spec: Any) -> dict[str, Any] | None:
    """The windows of an operator as plain JSON data; None if it has none.

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
    """What differs so much that open windows would be lost: (what was, what is), each in words."""
    return [
        (_words(name, stored[name]), _words(name, declared[name]))
        for name in ("of", "merging", "time", "trigger")
        if stored.get(name) != declared[name]
        # An assigner of the program's own may make windows of any kind.
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
    if isinstance(trigger, PurgingTrigger):  # keeps neither state nor timers
        return _trigger(trigger.nested_trigger)
    if isinstance(trigger, ProcessingTimeoutTrigger):
        return f"{type(trigger).__name__}({_trigger(trigger.nested_trigger)})"
    return type(trigger).__name__ if _is_built_in(trigger) else _OWN


def _is_built_in(part: Any) -> bool:
    return type(part).__module__.startswith("tidemill.datastream.")


def _words(name: str, value: Any) -> str:
    words: dict[Any, str] = _WORDS[name]  # type: ignore[assignment]
    return words.get(value, str(value))
