"""The five keyed states as user functions see them, against a model, with commits and restores at random points."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import States
from tests.thorough import examples
from tests.unit.state.backends import commit, make_backend, restore
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import StateError
from tidemill.state.keyed.context import KeyContext

NOTHING: dict[str, Any] = {"value": None, "list": [], "map": {}, "reducing": None, "aggregating": None}


@pytest.fixture
def states() -> States:
    return States(make_backend())


def test_without_a_key_state_cannot_be_used(states: States) -> None:
    with pytest.raises(StateError, match=r"operator 'op'.*while no record was being processed"):
        states.value.value()
    states.at("a").value.update(1)
    states.backend.context.leave()
    for use in (
        lambda: states.value.update(1),
        lambda: states.list.add(1),
        lambda: states.map.put(1, 1),
        lambda: states.reducing.add(1),
        lambda: states.aggregating.add(1),
        states.list.get,
        states.map.is_empty,
    ):
        with pytest.raises(StateError):
            use()


def test_a_key_context_can_be_left_twice_and_knows_only_its_key() -> None:
    context = KeyContext("operator 'op'")
    context.key = None
    assert context.key is None
    context.leave()
    context.leave()
    with pytest.raises(StateError):
        _ = context.key
    context.key = "a"
    assert context.key == "a"


def test_empty_states(states: States) -> None:
    assert states.at("a").seen() == NOTHING
    assert states.map.is_empty()
    assert not states.map.contains(1)
    for state in states.all():
        state.clear()
    assert states.backend.export_delta() == []


def test_states_are_scoped_to_key_and_namespace(states: States) -> None:
    states.at("a").value.update(1)
    states.at("b").value.update(2)
    states.at("a", "w").value.update(3)
    assert [states.at("a").value.value(), states.at("b").value.value(), states.at("a", "w").value.value()] == [1, 2, 3]
    assert states.at("b", "w").value.value() is None


def test_the_default_value_is_a_copy_each_time() -> None:
    backend = make_backend()
    state = backend.value_state(ValueStateDescriptor("value", default_value=[0]))
    backend.context.key = "a"
    state.value().append(1)
    assert state.value() == [0]
    state.update([5])
    state.clear()
    assert state.value() == [0]
    commit(backend)
    assert state.value() == [0]


def test_updating_with_none_clears(states: States) -> None:
    states.at("a").value.update(1)
    states.value.update(None)
    assert states.value.value() is None
    assert list(states.backend.keys("value")) == []


def test_a_list_refuses_none(states: States) -> None:
    states.at("a")
    with pytest.raises(ValueError, match="None"):
        states.list.add(None)
    with pytest.raises(ValueError, match="None"):
        states.list.update([1, None])
    with pytest.raises(ValueError, match="None"):
        states.list.add_all([1, None])


def test_an_iterator_over_a_list_does_not_follow_later_changes(states: States) -> None:
    states.at("a").list.add_all([1, 2])
    commit(states.backend)
    states.list.add(3)
    elements = states.list.get()
    states.list.add(4)
    states.list.update([])
    assert list(elements) == [1, 2, 3]


def test_map_entries(states: States) -> None:
    a_map = states.at("a").map
    a_map.put("x", 1)
    a_map.put_all({"y": None, "z": 3})
    assert a_map.contains("y")
    assert a_map.get("y") is None
    commit(states.backend)
    a_map.remove("x")
    a_map.remove("unknown")
    a_map.put("w", 4)
    assert list(a_map) == list(a_map.keys()) == ["y", "z", "w"]
    assert list(a_map.values()) == [None, 3, 4]
    a_map.clear()
    assert a_map.is_empty()
    a_map.put("z", 5)
    assert dict(a_map.items()) == {"z": 5}
    a_map.remove("z")
    assert a_map.is_empty()
    commit(states.backend)
    assert list(states.backend.keys("map")) == []


def test_changing_what_was_read_leaves_committed_state_as_it_was(states: States) -> None:
    states.at("a").value.update({"n": [1]})
    states.list.update([[1], [2]])
    states.map.put("k", [1])
    states.reducing.add([1])
    states.aggregating.add(1)
    file = commit(states.backend)
    assert file is not None
    states.value.value()["n"].append("changed")
    for element in states.list.get():
        element.append("changed")
    states.map.get("k").append("changed")
    next(iter(states.map.values())).append("changed")
    states.reducing.get().append("changed")
    assert states.backend.export_delta() == []
    states.backend.discard()
    states.backend.begin_epoch()
    expected = {"value": {"n": [1]}, "list": [[1], [2]], "map": {"k": [1]}, "reducing": [1], "aggregating": (1,)}
    assert states.seen() == expected
    assert States(restore(make_backend(), [file])).at("a").seen() == expected


def test_a_read_value_is_copied_once_per_epoch(states: States) -> None:
    states.at("a").value.update([1])
    commit(states.backend)
    one = states.value.value()
    assert states.value.value() is one
    one.append(2)
    assert states.value.value() == [1, 2]  # its own copy, for this epoch
    commit(states.backend)
    assert states.value.value() == [1]  # never written


def test_an_accumulator_changed_in_place_does_not_leak_into_the_base(states: States) -> None:
    states.at("a").aggregating.add(1)
    states.reducing.add([1])
    commit(states.backend)
    states.aggregating.add(2)
    states.reducing.add([2])
    assert states.seen()["aggregating"] == (1, 2)
    states.backend.discard()
    states.backend.begin_epoch()
    assert states.seen()["aggregating"] == (1,)
    assert states.seen()["reducing"] == [1]


def test_a_discarded_epoch_leaves_nothing(states: States) -> None:
    states.at("a").value.update(1)
    commit(states.backend)
    for key, name in (("a", None), ("b", None), ("a", "w")):
        states.at(key, name)
        states.value.update(9)
        states.list.add(9)
        states.map.put(9, 9)
        states.reducing.add(9)
        states.aggregating.add(9)
        states.backend.event_timers.register(9, key)
    states.backend.discard()
    states.backend.begin_epoch()
    assert states.at("a").seen() == {**NOTHING, "value": 1}
    assert states.at("b").seen() == states.at("a", "w").seen() == NOTHING
    assert states.backend.export_delta() == []
    assert not states.backend.event_timers


def test_namespaces_are_merged(states: States) -> None:
    for number, name in enumerate(("w1", "w2", "w3")):
        states.at("a", name)
        states.list.add(number)
        states.reducing.add(number)
        states.aggregating.add(number)
        if number == 0:
            commit(states.backend)
    for state in (states.list, states.reducing, states.aggregating):
        state.merge_namespaces("w3", ["w1", "w2"])
    assert states.at("a", "w1").seen() == states.at("a", "w2").seen() == NOTHING
    merged = states.at("a", "w3").seen()
    assert merged["list"] == [2, 0, 1]
    assert merged["reducing"] == 3
    assert sorted(merged["aggregating"]) == [0, 1, 2]


# --- against a model

KEYS = st.sampled_from(["a", "b", ("c", 1), None])
NAMES = st.sampled_from([None, "w"])
SMALL = st.one_of(st.integers(0, 5), st.text(max_size=2), st.lists(st.integers(0, 3), max_size=2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), KEYS, NAMES, SMALL),
        st.tuples(st.just("add"), KEYS, NAMES, st.integers(0, 5)),
        st.tuples(st.just("replace"), KEYS, NAMES, st.lists(SMALL, max_size=2)),
        st.tuples(st.just("put"), KEYS, NAMES, st.tuples(st.sampled_from(["x", "y", 1]), SMALL)),
        st.tuples(st.just("remove"), KEYS, NAMES, st.sampled_from(["x", "y", 1])),
        st.tuples(st.just("clear"), KEYS, NAMES, st.sampled_from(["value", "list", "map", "reducing", "aggregating"])),
        st.sampled_from([("commit",), ("discard",), ("restore",)]),
    ),
    max_size=30,
)


class Model:
    """What the states of one key and namespace hold."""

    def __init__(self) -> None:
        self.cells: dict[tuple[Any, Any], dict[str, Any]] = {}

    def cell(self, key: Any, name: Any) -> dict[str, Any]:
        return self.cells.setdefault((key, name), copy.deepcopy(NOTHING))


def apply(states: States, model: Model, what: str, key: Any, name: Any, argument: Any) -> None:
    cell = model.cell(key, name)
    states.at(key, name)
    if what == "update":
        states.value.update(argument)
        cell["value"] = argument
    elif what == "add":
        states.list.add(argument)
        states.reducing.add(argument)
        states.aggregating.add(argument)
        cell["list"] = [*cell["list"], argument]
        cell["reducing"] = (cell["reducing"] or 0) + argument
        cell["aggregating"] = (*(cell["aggregating"] or ()), argument)
    elif what == "replace":
        states.list.update(argument)
        cell["list"] = list(argument)
    elif what == "put":
        states.map.put(*argument)
        cell["map"] = {**cell["map"], argument[0]: argument[1]}
    elif what == "remove":
        states.map.remove(argument)
        cell["map"] = {k: v for k, v in cell["map"].items() if k != argument}
    else:
        getattr(states, argument).clear()
        cell[argument] = copy.deepcopy(NOTHING[argument])


@settings(max_examples=examples(80), deadline=None)
@given(STEPS)
def test_states_are_their_model(steps: list[tuple[Any, ...]]) -> None:
    states, model, committed = States(make_backend()), Model(), Model()
    files: list[bytes] = []
    for what, *rest in steps:
        if what == "commit":
            file = commit(states.backend)
            files += [file] if file is not None else []
            committed = copy.deepcopy(model)
        elif what == "discard":
            states.backend.discard()
            states.backend.begin_epoch()
            model = copy.deepcopy(committed)
        elif what == "restore":
            states = States(restore(make_backend(), files))
            model = copy.deepcopy(committed)
        else:
            apply(states, model, what, *rest)
        for (key, name), cell in model.cells.items():
            seen = states.at(key, name).seen()
            assert seen == cell
            assert states.map.is_empty() is (not cell["map"])
    for kind in ("value", "list", "map", "reducing", "aggregating"):
        held = {key for (key, name), cell in model.cells.items() if name is None and cell[kind] not in (None, [], {})}
        empty_lists = {k for (k, n), c in model.cells.items() if n is None and kind == "value" and c["value"] == []}
        assert set(states.backend.keys(kind)) == held | empty_lists
