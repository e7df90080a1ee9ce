"""Compares each stored state of an operator with the program's declaration and determines the outcome.

If both sides declare types, the types alone decide. For undeclared types and for classes, the outcome depends on the
values: these states are read exactly as a start reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.stored_states import StoredState
from tidemill.common.reports.upgrade_report import Change, Outcome
from tidemill.datastream.program.specs import WindowSpec
from tidemill.errors import SerializationError, StateError
from tidemill.graph.plan import JobPlan, OperatorPlan
from tidemill.runtime.start.declared_states import DeclaredState, OperatorStates
from tidemill.runtime.task.operator_kinds import TIMED, lost_timers
from tidemill.state.codecs.column_codecs import codec_for
from tidemill.state.codecs.serializers import Convert, Incompatible, compatibility, parse_type_snapshot, type_text
from tidemill.state.files.section_kinds import TIMER
from tidemill.state.files.sections import (
    TIMER_SHAPE,
    StateShape,
    read_rows,
    start_empty,
    type_refusal,
    with_unknown_key,
)
from tidemill.state.files.state_file import Section
from tidemill.state.files.ttl_declared import stored_ttl
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.keys.key_groups import GroupCache
from tidemill.state.merging import merge_rows
from tidemill.state.operator.operator_state import LAYOUT, OPERATOR_STATE

__all__ = ["ReadState", "compare_states"]

#: Returns the valid sections of a state, given the uid of its operator and its name.
ReadState = Callable[[str, str], Iterable[Section]]

#: Markers of type descriptions that do not fully describe their values.
_SAYS_LITTLE: Final = ('"pickled"', '"class"')


def compare_states(
    plan: JobPlan,
    stored: Mapping[tuple[str, str], StoredState],
    declared: Mapping[str, OperatorStates],
    manifest: Manifest,
    read: ReadState | None = None,
) -> list[Change]:
    """The outcome for each state of the program's operators; ``declared`` are the states they register, by uid.

    Without ``read``, no values are read: the start may then refuse more states.
    """
    changes: list[Change] = []
    reading = _Reading(read, plan)
    for operator in (operator for chain in plan.chains for operator in chain.operators):
        found = {state: kept for (uid, state), kept in stored.items() if uid == operator.uid}
        if operator.inputs == 0 and operator.uid in manifest.sources:
            changes.append(Change(operator.uid, operator.name, "", Outcome.RESTORED, "position", "position"))
        states = declared.get(operator.uid)
        if states is None:
            continue
        if states.invalid:
            detail = (
                f"operator {operator.name!r} (uid {operator.uid}): its states cannot be registered: {states.failure}"
            )
            changes.append(Change(operator.uid, operator.name, "", Outcome.REFUSED, detail=detail))
        elif states.failure is not None:
            detail = f"its functions could not be opened here, so its states are unknown: {states.failure}"
            changes.append(Change(operator.uid, operator.name, "", Outcome.UNKNOWN, detail=detail))
        for name, state in states.states.items():
            changes.append(_state(operator, state, found.pop(name, None), reading))
        changes += [_undeclared(operator, kept, reading) for kept in found.values() if not _internal(kept)]
        timers = [kept for kept in found.values() if kept.state in (EVENT_TIMERS, PROCESSING_TIMERS)]
        if timers:
            changes.append(_timers(operator, timers, reading))
    return changes


class _Reading:
    """Reads stored states as a start does, where that is possible."""

    def __init__(self, read: ReadState | None, plan: JobPlan) -> None:
        self._read = read
        operators = (operator for chain in plan.chains for operator in chain.operators)
        self._limits = {operator.uid: operator.max_parallelism for operator in operators if operator.keyed}

    def refused(self, kept: StoredState, shape: StateShape) -> str | None:
        """Why a state cannot be read; None if it can be read, or if reading is not allowed."""
        if self._read is None:
            return None
        keyed = OPERATOR_STATE not in kept.schemas[-1]
        group_of = GroupCache(self._limits[kept.operator]) if keyed and kept.operator in self._limits else None
        try:
            for section in self._read(kept.operator, kept.state):
                read_rows(section, shape, group_of=group_of)
        except (StateError, SerializationError) as error:
            return str(error)
        return None

    def has_timers(self, timers: Iterable[StoredState]) -> bool:
        """Whether any timers are pending; False if reading is not allowed."""
        read = self._read
        if read is None:
            return False
        found = [list(read(kept.operator, kept.state)) for kept in timers]
        return any(merge_rows(TIMER, [read_rows(one) for one in parts], keep_deletes=False) for parts in found)


def _timers(operator: OperatorPlan, timers: list[StoredState], reading: _Reading) -> Change:
    rows = f"{sum(kept.rows for kept in timers)} rows"
    shape = TIMER_SHAPE.with_key(operator.key_type)
    if operator.spec_kind not in TIMED and reading.has_timers(timers):
        where = f"operator {operator.name!r} (uid {operator.uid})"
        return Change(operator.uid, operator.name, "timers", Outcome.REFUSED, rows, detail=lost_timers(where))
    for kept in timers:
        problem = _by_types(kept.schemas, DeclaredState(kept.state, shape), kept) or reading.refused(kept, shape)
        if problem is not None:
            detail = f"operator {operator.name!r} (uid {operator.uid}): its timers cannot be restored: {problem}"
            return Change(operator.uid, operator.name, "timers", Outcome.REFUSED, rows, detail=detail)
    return Change(operator.uid, operator.name, "timers", Outcome.RESTORED, rows)


def _by_types(schemas: Iterable[Mapping[str, Any]], state: DeclaredState, kept: StoredState) -> str | None:
    return next((problem for schema in schemas if (problem := _compare(schema, state, kept, []))), None)


def _internal(state: StoredState) -> bool:
    return state.state in (EVENT_TIMERS, PROCESSING_TIMERS) or state.schemas[-1].get(OPERATOR_STATE) == LAYOUT


def _undeclared(operator: OperatorPlan, kept: StoredState, reading: _Reading) -> Change:
    shown = _shown_name(kept.state, kept.schemas[-1])
    if OPERATOR_STATE in kept.schemas[-1]:
        # Operator state is distributed to the subtasks, and therefore read, even if no function registers it.
        unknown = codec_for(None)
        problem = reading.refused(kept, StateShape(kept.kind, unknown, unknown, unknown, schema=kept.schemas[-1]))
        if problem is not None:
            text = _text(kept.schemas[-1], kept.kind)
            return Change(operator.uid, operator.name, shown, Outcome.REFUSED, text, detail=problem)
    return Change(
        operator.uid,
        operator.name,
        shown,
        Outcome.ORPHANED,
        _text(kept.schemas[-1], kept.kind),
        detail="it is not registered in open(); it stays in storage, and is restored if it is registered later",
    )


def _state(operator: OperatorPlan, state: DeclaredState, kept: StoredState | None, reading: _Reading) -> Change:
    uid, name = operator.uid, operator.name
    declared = _text(state.schema, state.kind, state.ttl)
    shown = _shown_name(state.name, state.schema)
    if kept is None or not kept.schemas:
        return Change(uid, name, shown, Outcome.NEW, "", declared)
    notes: list[str] = []
    for schema in kept.schemas:
        problem = _compare(schema, state, kept, notes)
        if problem is not None:
            detail = f"operator {name!r} (uid {uid}): state {shown!r} {problem}"
            return Change(uid, name, shown, Outcome.REFUSED, _text(schema, kept.kind), declared, detail)
    if operator.spec_kind == WindowSpec.__name__ or any(_says_little(schema, state) for schema in kept.schemas):
        problem = reading.refused(kept, state.shape)
        if problem is not None:
            stored = _text(kept.schemas[-1], kept.kind)
            return Change(uid, name, shown, Outcome.REFUSED, stored, declared, f"operator {name!r}: {problem}")
    outcome = Outcome.MIGRATED if notes else Outcome.RESTORED
    stored = " and ".join(dict.fromkeys(_text(schema, kept.kind) for schema in kept.schemas))
    return Change(uid, name, shown, outcome, stored, declared, "; ".join(dict.fromkeys(notes)))


def _compare(schema: Mapping[str, Any], state: DeclaredState, kept: StoredState, notes: list[str]) -> str | None:
    """Why sections with this schema cannot be restored, or None; describes conversions in ``notes``."""
    was = schema.get(OPERATOR_STATE) or schema.get("types", {}).get("kind", kept.kind)
    now = state.schema.get(OPERATOR_STATE) or state.schema["types"]["kind"]
    if was != now:
        return f"is stored as {was} state, but the program now declares it as {now} state; {start_empty(state.name)}"
    stored, wanted = parse_type_snapshot(schema.get("types")), parse_type_snapshot(state.schema["types"])
    if "key" in wanted:
        stored = with_unknown_key(stored)
    for column in sorted(stored.keys() & wanted.keys()):
        if column == "value" and type_text(stored[column]) in state.migrations:
            notes.append("values are migrated by a function of the program")
            continue
        found = compatibility(stored[column], wanted[column], is_key=column != "value")
        if isinstance(found, Incompatible):
            return type_refusal(state.name, column, type_text(stored[column]), type_text(wanted[column]), found.reason)
        if isinstance(found, Convert):
            what = {"key": "keys", "user_key": "map keys", "value": "values"}[column]
            notes.append(f"{what} are checked against the declared type" if found.check else f"{what} are converted")
    before, after = stored_ttl(schema), state.ttl
    if before is None and after is not None:
        notes.append(f"a time to live of {after['ttl']} ms begins with the restore")
    elif before is not None and after is None:
        notes.append(f"the time to live of {before['ttl']} ms is dropped")
    elif before is not None and after is not None and _lifetime(before) != _lifetime(after):
        notes.append(f"the time to live changes: {_life_text(before)} becomes {_life_text(after)}")
    return None


def _says_little(schema: Mapping[str, Any], state: DeclaredState) -> bool:
    """Whether the types alone do not determine the outcome for values with this schema."""
    stored, wanted = parse_type_snapshot(schema.get("types")), parse_type_snapshot(state.schema["types"])
    if type_text(stored["value"]) in state.migrations if "value" in stored else True:
        return True
    keyed = OPERATOR_STATE not in schema
    if keyed and "key" not in stored:
        return True
    return any(word in json.dumps([stored, wanted]) for word in _SAYS_LITTLE)


def _lifetime(ttl: Mapping[str, Any]) -> tuple[Any, ...]:
    return ttl["ttl"], ttl["update"], ttl["time"]


def _life_text(ttl: Mapping[str, Any]) -> str:
    return f"{ttl['ttl']} ms, {ttl['update']}, {ttl['time']}"


def _text(schema: Mapping[str, Any], kind: str, ttl: Mapping[str, Any] | None = None) -> str:
    """A state's kind and types as the report shows them."""
    types = parse_type_snapshot(schema.get("types"))
    inner = [type_text(types[column]) for column in ("user_key", "value") if column in types]
    shown: str = schema.get(OPERATOR_STATE) or schema.get("types", {}).get("kind", kind)
    ttl = ttl or stored_ttl(schema)
    expiring = f", ttl {ttl['ttl']} ms" if ttl else ""
    return f"{shown}({', '.join(inner)}{expiring})" if inner else shown


def _shown_name(state: str, schema: Mapping[str, Any]) -> str:
    return state.partition(":")[2] or state if OPERATOR_STATE in schema else state
