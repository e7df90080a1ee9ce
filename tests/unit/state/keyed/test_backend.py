"""Backends beyond their contract (tests/contract): what a delta costs, the whole state, rescaling."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import States
from tests.thorough import examples
from tests.unit.state.backends import MAX_PARALLELISM, commit, make_backend, restore
from tidemill.common import Types
from tidemill.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.state.files.state_file import encode_sections
from tidemill.state.keys.key_groups import key_group_of, subtask_for_group


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


def test_mutable_says_whether_user_code_could_change_what_it_read() -> None:
    backend = make_backend()
    backend.value_state(ValueStateDescriptor("n", Types.LONG()))
    backend.value_state(ValueStateDescriptor("t", Types.TUPLE([Types.STRING(), Types.DOUBLE()])))
    backend.list_state(ListStateDescriptor("l", Types.STRING()))
    backend.map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    assert not backend.mutable
    backend.map_state(MapStateDescriptor("p", Types.STRING()))
    assert backend.mutable


@settings(max_examples=examples(40), deadline=None)
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
