"""Registering states: one name, one kind, one type; and no state without a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.keyed_state import Joined, NewBackend, Operator, States, commit, load
from tidemill.common import Types
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import StateError


@pytest.fixture
def operator(new_backend: NewBackend) -> Operator:
    return Operator(new_backend)


def test_a_state_is_registered_once(new_backend: NewBackend) -> None:
    backend = new_backend()
    one = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    assert backend.value_state(ValueStateDescriptor("v", Types.LONG())) is one
    assert backend.state_names() == ["v"]
    assert backend.state("v") is one


@pytest.mark.parametrize(
    "again",
    [
        lambda backend: backend.value_state(ValueStateDescriptor("v", Types.STRING())),
        lambda backend: backend.list_state(ListStateDescriptor("v", Types.LONG())),
        lambda backend: backend.map_state(MapStateDescriptor("v", Types.LONG(), Types.LONG())),
        lambda backend: backend.reducing_state(ReducingStateDescriptor("v", max, Types.LONG())),
    ],
    ids=["another type", "a list", "a map", "a reducing state"],
)
def test_one_name_for_two_states_is_refused(new_backend: NewBackend, again: Callable[[Any], Any]) -> None:
    backend = new_backend()
    backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    with pytest.raises(StateError, match=r"operator 'op': state 'v' was registered twice with different types"):
        again(backend)


@pytest.mark.parametrize(
    "declare",
    [
        lambda backend: backend.map_state(MapStateDescriptor("value")),
        lambda backend: backend.list_state(ListStateDescriptor("value")),
        lambda backend: backend.reducing_state(ReducingStateDescriptor("value", max)),
    ],
    ids=["a map", "a list", "a reducing state"],
)
def test_stored_state_of_another_kind_is_refused(
    operator: Operator, new_backend: NewBackend, declare: Callable[[Any], Any]
) -> None:
    operator.at("a").value.update(1)
    operator.commit()
    backend = load(new_backend(), operator.files)
    with pytest.raises(StateError, match=r"state 'value' is stored as value state.*give the state another name"):
        declare(backend)


USES: dict[str, Callable[[States], Any]] = {
    "value.value": lambda states: states.value.value(),
    "value.update": lambda states: states.value.update(1),
    "value.clear": lambda states: states.value.clear(),
    "list.get": lambda states: list(states.list.get()),
    "list.add": lambda states: states.list.add(1),
    "list.update": lambda states: states.list.update([1]),
    "list.clear": lambda states: states.list.clear(),
    "map.get": lambda states: states.map.get(1),
    "map.put": lambda states: states.map.put(1, 1),
    "map.items": lambda states: list(states.map.items()),
    "map.is_empty": lambda states: states.map.is_empty(),
    "map.remove": lambda states: states.map.remove(1),
    "map.clear": lambda states: states.map.clear(),
    "reducing.get": lambda states: states.reducing.get(),
    "reducing.add": lambda states: states.reducing.add(1),
    "aggregating.get": lambda states: states.aggregating.get(),
    "aggregating.add": lambda states: states.aggregating.add(1),
}


@pytest.mark.parametrize("use", USES)
def test_state_cannot_be_used_outside_a_key(new_backend: NewBackend, use: str) -> None:
    states = States(new_backend())
    with pytest.raises(StateError, match=r"operator 'op'.*while no record was being processed.*open\(\)"):
        USES[use](states)
    states.at("a").fill(1)
    commit(states.backend)
    states.backend.context.leave()
    with pytest.raises(StateError, match="while no record was being processed"):
        USES[use](states)
    assert states.backend.export_delta() == []


def test_an_aggregating_state_and_a_value_state_of_one_name_are_two_kinds(new_backend: NewBackend) -> None:
    states = States(new_backend())
    with pytest.raises(StateError, match="registered twice"):
        states.backend.aggregating_state(AggregatingStateDescriptor("value", Joined()))
