"""What becomes of each state of an operator, from how it is stored and how the program declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.stored_states import StoredState
from tidemill.common.upgrade_report import Change, Outcome
from tidemill.graph.plan import JobPlan, OperatorPlan
from tidemill.runtime.declared_states import DeclaredState, OperatorStates
from tidemill.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.operator_state import LAYOUT, OPERATOR_STATE
from tidemill.state.sections import refusal
from tidemill.state.serializers import Convert, Incompatible, compatibility, parse_snapshot, type_text
from tidemill.state.ttl_declared import stored_ttl

__all__ = ["compare_states"]


def compare_states(
    plan: JobPlan,
    stored: Mapping[tuple[str, str], StoredState],
    declared: Mapping[str, OperatorStates],
    manifest: Manifest,
) -> list[Change]:
    """What becomes of each state of the program's operators; ``declared`` is what each registers, by uid."""
    changes: list[Change] = []
    for operator in (operator for chain in plan.chains for operator in chain.operators):
        found = {state: kept for (uid, state), kept in stored.items() if uid == operator.uid}
        if operator.inputs == 0 and operator.uid in manifest.sources:
            changes.append(Change(operator.uid, operator.name, "", Outcome.RESTORED, "position", "position"))
        states = declared.get(operator.uid)
        if states is None:
            continue
        if states.failure is not None:
            detail = f"its functions could not be opened here, so its states are not known: {states.failure}"
            changes.append(Change(operator.uid, operator.name, "", Outcome.UNKNOWN, detail=detail))
        for name, state in states.states.items():
            changes.append(_state(operator, state, found.pop(name, None)))
        changes += [_undeclared(operator, kept) for kept in found.values() if not _internal(kept)]
        timers = [kept for kept in found.values() if kept.state in (EVENT_TIMERS, PROCESSING_TIMERS)]
        if timers:
            rows = f"{sum(kept.rows for kept in timers)} rows"
            changes.append(Change(operator.uid, operator.name, "timers", Outcome.RESTORED, rows))
    return changes


def _internal(state: StoredState) -> bool:
    return state.state in (EVENT_TIMERS, PROCESSING_TIMERS) or state.schemas[-1].get(OPERATOR_STATE) == LAYOUT


def _undeclared(operator: OperatorPlan, kept: StoredState) -> Change:
    return Change(
        operator.uid,
        operator.name,
        _shown_name(kept.state, kept.schemas[-1]),
        Outcome.ORPHANED,
        _text(kept.schemas[-1], kept.kind),
        detail="it is not registered in open(); it stays in storage, and is found again if it is registered later",
    )


def _state(operator: OperatorPlan, state: DeclaredState, kept: StoredState | None) -> Change:
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
    outcome = Outcome.MIGRATED if notes else Outcome.RESTORED
    stored = " and ".join(dict.fromkeys(_text(schema, kept.kind) for schema in kept.schemas))
    return Change(uid, name, shown, outcome, stored, declared, "; ".join(dict.fromkeys(notes)))


def _compare(schema: Mapping[str, Any], state: DeclaredState, kept: StoredState, notes: list[str]) -> str | None:
    """Why sections with this schema cannot be restored, or None; ``notes`` is told what is done to them."""
    was = schema.get(OPERATOR_STATE) or schema.get("types", {}).get("kind", kept.kind)
    now = state.schema.get(OPERATOR_STATE) or state.schema["types"]["kind"]
    if was != now:
        return f"is stored as {was} state, but the program now declares it as {now} state; give it another name"
    stored, wanted = parse_snapshot(schema.get("types")), parse_snapshot(state.schema["types"])
    for column in sorted(stored.keys() & wanted.keys()):
        if column == "value" and type_text(stored[column]) in state.migrations:
            notes.append("values are migrated by a function of the program")
            continue
        found = compatibility(stored[column], wanted[column], is_key=column != "value")
        if isinstance(found, Incompatible):
            return refusal(column, type_text(stored[column]), type_text(wanted[column]), found.reason)
        if isinstance(found, Convert):
            notes.append("values are checked against the declared type" if found.check else "values are converted")
    before, after = stored_ttl(schema), state.ttl
    if before is None and after is not None:
        notes.append(f"a time to live of {after['ttl']} ms begins with the restore")
    elif before is not None and after is None:
        notes.append(f"the time to live of {before['ttl']} ms is dropped")
    elif before is not None and after is not None and _lifetime(before) != _lifetime(after):
        notes.append(f"the time to live changes: {_life_text(before)} becomes {_life_text(after)}")
    return None


def _lifetime(ttl: Mapping[str, Any]) -> tuple[Any, ...]:
    return ttl["ttl"], ttl["update"], ttl["time"]


def _life_text(ttl: Mapping[str, Any]) -> str:
    return f"{ttl['ttl']} ms, {ttl['update']}, {ttl['time']}"


def _text(schema: Mapping[str, Any], kind: str, ttl: Mapping[str, Any] | None = None) -> str:
    """A state's kind and types as the report shows them."""
    types = parse_snapshot(schema.get("types"))
    inner = [type_text(types[column]) for column in ("user_key", "value") if column in types]
    shown: str = schema.get(OPERATOR_STATE) or schema.get("types", {}).get("kind", kind)
    ttl = ttl or stored_ttl(schema)
    expiring = f", ttl {ttl['ttl']} ms" if ttl else ""
    return f"{shown}({', '.join(inner)}{expiring})" if inner else shown


def _shown_name(state: str, schema: Mapping[str, Any]) -> str:
    return state.partition(":")[2] or state if OPERATOR_STATE in schema else state
