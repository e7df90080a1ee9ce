"""Checks whether an operator can use the state that another kind of operator stored under its uid.

State is identified by its name. But timers, and the internal state of windows and joins, are meaningful only to the
kind of operator that created them. An operator of another kind would silently ignore them, or misinterpret them as its
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidemill.datastream.program import specs
from tidemill.graph.plan import OperatorPlan
from tidemill.graph.window_kinds import window_changes

__all__ = ["BOOTSTRAP", "TIMED", "kind_refusal", "lost_timers"]

#: The prefix, before the uid, of the name of an operator that only writes initial state for an operator of any kind.
BOOTSTRAP: Final = "bootstrap of "

_FUNCTIONS: Final = (
    specs.MapSpec,
    specs.FlatMapSpec,
    specs.FilterSpec,
    specs.BatchMapSpec,
    specs.BatchFilterSpec,
    specs.BatchFlatMapSpec,
    specs.ProcessSpec,
    specs.CoMapSpec,
    specs.CoFlatMapSpec,
    specs.CoProcessSpec,
    specs.BroadcastProcessSpec,
)
#: Operators whose state and timers are defined by a user function: one can replace another.
_ALIKE: Final = frozenset(spec.__name__ for spec in _FUNCTIONS)
_WITH_TIMERS: Final = (
    specs.ProcessSpec,
    specs.CoProcessSpec,
    specs.BroadcastProcessSpec,
    specs.WindowSpec,
    specs.IntervalJoinSpec,
)
#: Operators that fire timers.
TIMED: Final = frozenset(spec.__name__ for spec in _WITH_TIMERS)
_WORDS: Final = {
    specs.ReduceSpec.__name__: "a reduce or aggregation",
    specs.WindowSpec.__name__: "windows",
    specs.IntervalJoinSpec.__name__: "an interval join",
    specs.AsyncWaitSpec.__name__: "asynchronous calls",
    specs.SinkSpec.__name__: "a sink",
    specs.SourceSpec.__name__: "a source",
    specs.TimestampsSpec.__name__: "timestamps and watermarks",
}


def kind_refusal(operator: OperatorPlan, description: Mapping[str, Any]) -> tuple[str, str] | None:
    """Descriptions of the stored and the current kind of an operator, if its state cannot be used by the current one.

    ``description`` is the manifest's description of the operator. Returns None if the kinds are compatible, or if the
    description does not contain the kind.
    """
    if not (description.get("keyed") or description.get("operator_state")):
        return None
    stored = str(description.get("kind", operator.spec_kind))
    if description.get("name") == f"{BOOTSTRAP}{operator.uid}":
        stored = operator.spec_kind
    if stored != operator.spec_kind and not {stored, operator.spec_kind} <= _ALIKE:
        return _words(stored), _words(operator.spec_kind)
    if stored == specs.SinkSpec.__name__ and not operator.operator_state:  # a file sink may have unfinished files
        return "a sink whose writers have state", "one whose writers have none"
    if description.get("keyed") and not operator.keyed:
        return "an operator with keyed state", "one on a stream without keys"
    windows = description.get("windows")
    if windows is not None and operator.windows is not None:
        changes = window_changes(windows, dict(operator.windows))
        if changes:
            return ", ".join(was for was, _ in changes), ", ".join(now for _, now in changes)
    return None


def lost_timers(where: str) -> str:
    """Why an operator without timers cannot resume from the state of an operator with timers."""
    return (
        f"{where} has timers that were set by a process function, but it is no longer a process function: they would "
        "never fire. Make it a process function again, or give the operator another uid to start it empty"
    )


def _words(kind: str) -> str:
    return _WORDS.get(kind, "a function of the program")
