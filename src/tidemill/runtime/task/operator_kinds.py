"""Whether an operator can go on with what another kind of operator left under its uid.

State is found by its name, but timers, and what windows and joins keep, mean something to the kind of operator alone
that made them. An operator of another kind would leave them behind without a word, or take them for its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidemill.datastream.program import specs
from tidemill.graph.plan import OperatorPlan
from tidemill.graph.window_kinds import window_changes

__all__ = ["BOOTSTRAP", "TIMED", "kind_refusal", "lost_timers"]

#: How an operator is called that only fills the state for one of any kind, before the uid.
BOOTSTRAP: Final = "bootstrap of "

_FUNCTIONS: Final = (
    specs.MapSpec,
    specs.FlatMapSpec,
    specs.FilterSpec,
    specs.BatchMapSpec,
    specs.ProcessSpec,
    specs.CoMapSpec,
    specs.CoFlatMapSpec,
    specs.CoProcessSpec,
    specs.BroadcastProcessSpec,
)
#: Operators that do with state and timers what a function of the program says: one can take the place of another.
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
    """What kind of operator had the uid, and which has it now, in words, if the state of the one is lost on the other.

    ``description`` is what the manifest says of the operator; None if all is well, or it does not say.
    """
    if not (description.get("keyed") or description.get("operator_state")):
        return None
    stored = str(description.get("kind", operator.spec_kind))
    if description.get("name") == f"{BOOTSTRAP}{operator.uid}":
        stored = operator.spec_kind
    if stored != operator.spec_kind and not {stored, operator.spec_kind} <= _ALIKE:
        return _words(stored), _words(operator.spec_kind)
    if description.get("keyed") and not operator.keyed:
        return "an operator with keyed state", "one on a stream without keys"
    windows = description.get("windows")
    if windows is not None and operator.windows is not None:
        changes = window_changes(windows, dict(operator.windows))
        if changes:
            return ", ".join(was for was, _ in changes), ", ".join(now for _, now in changes)
    return None


def lost_timers(where: str) -> str:
    """Why an operator without timers cannot go on with the state of one that has some."""
    return (
        f"{where} has timers that were set by a process function before, and is no process function any more: they "
        "would never fire. Make it one again, or give the operator another uid to start it empty"
    )


def _words(kind: str) -> str:
    return _WORDS.get(kind, "a function of the program")
