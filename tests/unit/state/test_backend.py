"""The backend contract: registration, epochs, restores before and after registration, rescaling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.state.backends import MAX_PARALLELISM, States, commit, make_backend, restore
from tidemill.common import Types
from tidemill.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import SerializationError, StateError
from tidemill.state.key_groups import key_group_of, subtask_for_group
from tidemill.state.state_file import encode_sections


def test_a_state_registered_twice_is_one_object() -> None:
    backend = make_backend()
    one = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    assert backend.value_state(ValueStateDescriptor("v", Types.LONG())) is one
    assert backend.state_names() == ["v"]
    assert backend.state("v") is one


@pytest.mark.parametrize(
    "again",
    [
        lambda backend: backend.value_state(ValueStateDescriptor("v", Types.STRING())),
        lambda backend: backend.list_state(ListStateDescriptor("v", Types.LONG())),
        lambda backend: backend.reducing_state(ReducingStateDescriptor("v", max, Types.LONG())),
    ],
)
def test_one_name_with_two_types_is_refused(again: Any) -> None:
    backend = make_backend()
    backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    with pytest.raises(StateError, match=r"operator 'op': state 'v' was registered twice with different types"):
        again(backend)


def test_a_value_of_the_wrong_type_is_an_error_at_the_barrier() -> None:
    backend = make_backend()
    state = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    backend.context.key = "a"
    state.update("text")
    with pytest.raises(SerializationError, match=r"state 'v' of operator 'op'"):
        backend.export_delta()


def test_state_is_loaded_whether_it_is_registered_before_or_after() -> None:
    states = States(make_backend())
    states.at("a").value.update(1)
    states.list.add(2)
    file = commit(states.backend)
    assert file is not None
    assert States(restore(make_backend(), [file])).at("a").seen()["list"] == [2]
    early = States(make_backend())
    restore(early.backend, [file])
    assert early.at("a").seen()["value"] == 1
    assert early.backend.entries() == 2


def test_stored_state_of_another_kind_is_refused() -> None:
    states = States(make_backend())
    states.at("a").value.update(1)
    file = commit(states.backend)
    assert file is not None
    backend = restore(make_backend(), [file])
    with pytest.raises(StateError, match=r"'value' is stored as value state.*declares it as map state"):
        backend.map_state(MapStateDescriptor("value"))


def test_state_that_nobody_registers_is_kept_out_of_the_delta() -> None:
    states = States(make_backend())
    states.at("a").value.update(1)
    file = commit(states.backend)
    assert file is not None
    backend = restore(make_backend(), [file])
    assert backend.export_delta() == []


def test_keys_come_in_an_order_that_does_not_depend_on_history() -> None:
    states = States(make_backend())
    for key in (5, 3, 9, 1):
        states.at(key).value.update(key)
    before = list(states.backend.keys("value"))
    file = commit(states.backend)
    assert file is not None
    assert list(States(restore(make_backend(), [file])).backend.keys("value")) == before
    assert list(states.backend.keys("unknown")) == []


def test_the_delta_grows_with_what_changed_not_with_the_state() -> None:
    states = States(make_backend())
    for key in range(1000):
        states.at(key).value.update(key)
        states.map.put("x", key)
    whole = commit(states.backend)
    states.at(7).value.update(0)
    states.map.put("y", 1)
    small = commit(states.backend)
    assert whole is not None
    assert small is not None
    assert len(small) * 4 < len(whole)
    assert commit(states.backend) is None


def test_export_all_is_the_whole_committed_state() -> None:
    states = States(make_backend())
    states.at("a").value.update(1)
    states.at("a", "w").list.add(2)
    states.backend.event_timers.register(5, "a")
    states.backend.processing_timers.register(6, "a", "w")
    commit(states.backend)
    data, _ = encode_sections(states.backend.export_all())
    again = States(restore(make_backend(), [data]))
    assert again.at("a").seen()["value"] == 1
    assert again.at("a", "w").seen()["list"] == [2]
    assert list(again.backend.event_timers.pending()) == [(5, "a", None)]
    assert list(again.backend.processing_timers.pending()) == [(6, "a", "w")]


def test_mutable_tells_whether_user_code_could_change_what_it_read() -> None:
    backend = make_backend()
    backend.value_state(ValueStateDescriptor("n", Types.LONG()))
    backend.value_state(ValueStateDescriptor("t", Types.TUPLE([Types.STRING(), Types.DOUBLE()])))
    backend.list_state(ListStateDescriptor("l", Types.STRING()))
    backend.map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    assert not backend.mutable
    backend.map_state(MapStateDescriptor("p", Types.STRING()))
    assert backend.mutable


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=40),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_state_is_the_same_at_any_parallelism(
    writes: list[tuple[int, int]], before: int, after: int, epochs: int
) -> None:
    subtasks = [States(make_backend(before, number)) for number in range(before)]
    files: list[bytes] = []
    model: dict[int, int] = {}
    size = -(-len(writes) // epochs) or 1
    for start in range(0, len(writes), size):
        for key, number in writes[start : start + size]:
            group = key_group_of(key, MAX_PARALLELISM)
            states = subtasks[subtask_for_group(group, MAX_PARALLELISM, before)].at(key)
            states.value.update(number)
            states.backend.event_timers.register(number, key)
            model[key] = number
        files += [file for states in subtasks if (file := commit(states.backend)) is not None]
    found: dict[int, Any] = {}
    timers = set()
    for number in range(after):
        states = States(restore(make_backend(after, number), files))
        for key in states.backend.keys("value"):
            assert key not in found
            found[key] = states.at(key).value.value()
        timers |= set(states.backend.event_timers.pending())
    assert found == model
    assert timers == {(number, key, None) for key, number in writes}
