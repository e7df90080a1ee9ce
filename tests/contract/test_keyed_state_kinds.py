"""What each kind of keyed state promises to a user function, on every backend."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.keyed_state import KINDS, NOTHING, NewBackend, Operator, commit
from tidemill.common import Types
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import InvalidKeyError

WINDOW, LATER, LATEST = (0, 10), (10, 20), (20, 30)


@pytest.fixture
def operator(new_backend: NewBackend) -> Operator:
    return Operator(new_backend)


@pytest.fixture(params=["in the epoch", "committed"])
def settle(request: pytest.FixtureRequest, operator: Operator) -> Callable[[], object]:
    """Called between writing and reading: the same must be seen within an epoch and after its commit."""
    return operator.commit if request.param == "committed" else lambda: None


# --- a key that has nothing


def test_a_key_that_was_never_written_has_nothing(operator: Operator) -> None:
    states = operator.at("a")
    assert states.seen() == NOTHING
    assert states.map.is_empty()
    assert not states.map.contains("x")
    assert states.map.get("x") is None
    assert list(states.map) == list(states.map.values()) == list(states.list) == []


def test_reading_and_clearing_what_is_not_there_writes_nothing(operator: Operator) -> None:
    states = operator.at("a")
    states.seen()
    states.clear()
    states.value.update(None)
    states.map.remove("x")
    states.map.put_all({})
    states.list.add_all([])
    assert operator.commit() == [[]]
    assert operator.exported() == []
    assert all(operator.keys(kind) == [] for kind in KINDS)


# --- value


def test_a_value_is_what_was_last_put(operator: Operator, settle: Callable[[], object]) -> None:
    states = operator.at("a")
    for value in (1, "two", [3], 0, "", False):
        states.value.update(value)
        settle()
        assert operator.at("a").value.value() == value


def test_updating_a_value_with_none_clears_it(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").value.update(1)
    settle()
    operator.at("a").value.update(None)
    settle()
    assert operator.at("a").value.value() is None
    assert operator.keys("value") == []


def test_the_default_stands_in_for_a_value_that_is_not_there(new_backend: NewBackend) -> None:
    backend = new_backend()
    count = backend.value_state(ValueStateDescriptor("count", Types.LONG(), default_value=7))
    seen = backend.value_state(ValueStateDescriptor("seen", default_value=["first"]))
    backend.context.key = "a"
    assert count.value() == 7
    seen.value().append("changed")
    assert seen.value() == ["first"]  # the default is nobody's to change
    count.update(8)
    seen.update(["second"])
    commit(backend)
    assert (count.value(), seen.value()) == (8, ["second"])
    count.clear()
    seen.update(None)
    assert (count.value(), seen.value()) == (7, ["first"])
    commit(backend)
    assert (count.value(), seen.value()) == (7, ["first"])
    assert list(backend.keys("count")) == []


# --- list


def test_a_list_keeps_the_order_of_its_elements(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").list.add(3)
    settle()
    operator.at("a").list.add_all([1, 2, 1])
    settle()
    operator.at("a").list.add(3)
    settle()
    assert list(operator.at("a").list.get()) == list(operator.at("a").list) == [3, 1, 2, 1, 3]
    operator.at("a").list.update([9, 8])
    settle()
    operator.at("a").list.add(7)
    settle()
    assert list(operator.at("a").list.get()) == [9, 8, 7]


def test_an_empty_list_is_no_list(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").list.add_all([1, 2])
    settle()
    operator.at("a").list.update([])
    settle()
    assert list(operator.at("a").list.get()) == []
    assert operator.keys("list") == []
    operator.at("a").list.add(3)
    settle()
    assert list(operator.at("a").list.get()) == [3]


def test_none_is_no_element(operator: Operator) -> None:
    a_list = operator.at("a").list
    a_list.add(1)
    with pytest.raises(ValueError, match="None"):
        a_list.add(None)
    with pytest.raises(ValueError, match="None"):
        a_list.add_all([None])
    with pytest.raises(ValueError, match="None"):
        a_list.update([2, None])
    assert list(a_list.get()) == [1]


def test_iterating_over_a_list_is_not_disturbed_by_changing_it(operator: Operator) -> None:
    operator.at("a").list.add_all([1, 2])
    operator.commit()
    a_list = operator.at("a").list
    a_list.add(3)
    elements = a_list.get()
    a_list.add(4)
    a_list.clear()
    assert list(elements) == [1, 2, 3]
    a_list.add_all(a_list.get())
    assert list(a_list.get()) == []


# --- map


def test_entries_as_pairs(operator: Operator, settle: Callable[[], object]) -> None:
    """PyFlink's ``put_all`` takes nothing else."""
    operator.at("a").map.put_all([("x", 1), ("y", 2)])
    settle()
    operator.at("a").map.put_all((key, number) for key, number in zip("yz", (3, 4), strict=True))
    settle()
    assert dict(operator.at("a").map.items()) == {"x": 1, "y": 3, "z": 4}


def test_a_map_has_entries_of_its_own(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").map.put("x", 1)
    settle()
    operator.at("a").map.put_all({"y": 2, "z": 3})
    operator.at("a").map["w"] = 4
    settle()
    del operator.at("a").map["y"]
    operator.at("a").map.put("x", 5)
    settle()
    a_map = operator.at("a").map
    assert dict(a_map.items()) == {"x": 5, "z": 3, "w": 4}
    assert list(zip(a_map.keys(), a_map.values(), strict=True)) == list(a_map.items())
    assert list(a_map) == list(a_map.keys())
    assert a_map["x"] == a_map.get("x") == 5
    assert "z" in a_map
    assert not a_map.contains("y")
    assert a_map.get("y") is None
    assert not a_map.is_empty()


def test_a_map_entry_may_hold_none(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").map.put("x", None)
    settle()
    a_map = operator.at("a").map
    assert a_map.contains("x")
    assert a_map.get("x") is None
    assert list(a_map.items()) == [("x", None)]
    assert not a_map.is_empty()
    assert operator.keys("map") == ["a"]


def test_a_map_whose_entries_are_all_removed_is_gone(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").map.put_all({"x": 1, "y": 2})
    settle()
    operator.at("a").map.remove("x")
    settle()
    operator.at("a").map.remove("y")
    operator.at("a").map.remove("never there")
    settle()
    assert operator.at("a").map.is_empty()
    assert operator.keys("map") == []
    operator.at("a").map.put("y", 3)
    settle()
    assert dict(operator.at("a").map.items()) == {"y": 3}


def test_what_is_put_after_a_clear_is_the_whole_content(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").map.put_all({"x": 1, "y": 2})
    settle()
    operator.at("a").map.clear()
    operator.at("a").map.put("y", 3)
    operator.at("a").map.put("z", 4)
    operator.at("a").map.remove("z")
    settle()
    assert dict(operator.at("a").map.items()) == {"y": 3}
    assert not operator.at("a").map.contains("x")


def test_entries_can_be_removed_and_put_while_iterating(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").map.put_all({number: number for number in range(5)})
    settle()
    a_map = operator.at("a").map
    for user_key, value in a_map.items():
        a_map.remove(user_key)
        a_map.put(user_key + 10, value)
    assert dict(a_map.items()) == {number + 10: number for number in range(5)}


@pytest.mark.parametrize(
    "user_key", ["x", "", 0, -(2**70), 1.5, b"x", None, ("t", 1), (), True], ids=lambda user_key: repr(user_key)[:10]
)
def test_user_keys_of_many_types(
    operator: Operator, new_backend: NewBackend, settle: Callable[[], object], user_key: Any
) -> None:
    operator.at("a").map.put("other", 0)
    operator.at("a").map.put(user_key, 1)
    settle()
    assert operator.at("a").map.get(user_key) == 1
    operator.commit()
    again = Operator(new_backend, files=operator.files).at("a").map
    assert dict(again.items()) == {"other": 0, user_key: 1}
    again.remove(user_key)
    assert list(again.keys()) == ["other"]


def test_user_keys_that_are_equal_are_one_entry(operator: Operator, settle: Callable[[], object]) -> None:
    for number, user_key in enumerate((1, 1.0, True)):
        operator.at("a").map.put(user_key, number)
        settle()
    assert dict(operator.at("a").map.items()) == {1: 2}
    for number, user_key in enumerate((0.0, -0.0, False)):
        operator.at("a").map.put(user_key, number)
        settle()
    assert dict(operator.at("a").map.items()) == {1: 2, 0: 2}
    operator.at("a").map.put("1", 3)
    operator.at("a").map.put(b"1", 4)
    settle()
    assert dict(operator.at("a").map.items()) == {1: 2, 0: 2, "1": 3, b"1": 4}


def test_nan_is_one_user_key(operator: Operator) -> None:
    one, other = float("nan"), float("nan")
    operator.at("a").map.put(one, 1)
    operator.commit()
    assert operator.at("a").map.get(one) == operator.at("a").map.get(other) == 1
    operator.at("a").map.put(other, 2)
    assert list(operator.at("a").map.values()) == [2]
    operator.commit()
    assert list(operator.at("a").map.values()) == [2]
    assert operator.at("a").map.get(one) == 2


def test_a_user_key_that_a_restore_could_not_find_again_is_refused(operator: Operator) -> None:
    for key in (object(), lambda: None):
        with pytest.raises(InvalidKeyError):
            operator.at("a").map.put(key, 1)
    with pytest.raises(InvalidKeyError):
        operator.at("a").map.put_all({object(): 1})


# --- reducing and aggregating


def test_what_is_added_is_reduced(operator: Operator, settle: Callable[[], object]) -> None:
    for number in (1, 2, 3):
        operator.at("a").reducing.add(number)
        settle()
    assert operator.at("a").reducing.get() == 6
    operator.at("a").reducing.clear()
    settle()
    assert operator.at("a").reducing.get() is None
    operator.at("a").reducing.add(4)
    settle()
    assert operator.at("a").reducing.get() == 4


def test_what_is_added_is_aggregated(operator: Operator, settle: Callable[[], object]) -> None:
    for number in (1, 2, 3):
        operator.at("a").aggregating.add(number)
        settle()
    assert operator.at("a").aggregating.get() == (1, 2, 3)
    operator.at("a").aggregating.clear()
    settle()
    assert operator.at("a").aggregating.get() is None
    operator.at("a").aggregating.add(4)
    settle()
    assert operator.at("a").aggregating.get() == (4,)


def test_adding_none_clears_what_was_added(operator: Operator, settle: Callable[[], object]) -> None:
    operator.at("a").reducing.add(1)
    operator.at("a").aggregating.add(1)
    settle()
    operator.at("a").reducing.add(None)
    operator.at("a").aggregating.add(None)
    settle()
    assert operator.at("a").seen() == NOTHING


# --- keys and namespaces


def test_keys_do_not_see_each_other(operator: Operator, settle: Callable[[], object]) -> None:
    for number, key in enumerate(("a", "b", "c")):
        operator.at(key).fill(number)
    settle()
    operator.at("b").clear()
    operator.at("c").fill(5)
    settle()
    assert operator.at("a").seen() == {"value": 0, "list": [0], "map": {"0": 0}, "reducing": 0, "aggregating": (0,)}
    assert operator.at("b").seen() == NOTHING
    assert operator.at("c").seen() == {
        "value": 5,
        "list": [2, 5],
        "map": {"2": 2, "5": 5},
        "reducing": 7,
        "aggregating": (2, 5),
    }
    for kind in KINDS:
        assert sorted(operator.keys(kind)) == ["a", "c"]


def test_namespaces_do_not_see_each_other(operator: Operator, settle: Callable[[], object]) -> None:
    for number, name in enumerate((None, WINDOW, LATER)):
        operator.at("a", name).fill(number)
    settle()
    operator.at("a", WINDOW).clear()
    settle()
    assert operator.at("a").seen()["value"] == 0
    assert operator.at("a", WINDOW).seen() == NOTHING
    assert operator.at("a", LATER).seen()["list"] == [2]
    assert operator.at("b", LATER).seen() == NOTHING
    for kind in KINDS:
        assert operator.keys(kind) == operator.keys(kind, LATER) == ["a"]
        assert operator.keys(kind, WINDOW) == operator.keys(kind, LATEST) == []


def test_namespaces_that_look_alike(operator: Operator, settle: Callable[[], object]) -> None:
    names: list[Any] = [None, "", "\0", "a", "a\0", b"", b"\0", b"a", (), ("",), ("\0",), 0, (0,), (0, 5), (0, 5, 0)]
    for number, name in enumerate(names):
        operator.at("a", name).fill(number)
    settle()
    operator.at("a", "").clear()
    settle()
    for number, name in enumerate(names):
        expected = [] if name == "" else [number]
        assert list(operator.at("a", name).list.get()) == expected
        assert list(operator.at("a", name).map.values()) == expected


def test_namespaces_are_merged_into_one(operator: Operator, settle: Callable[[], object]) -> None:
    for number, name in enumerate((WINDOW, LATER, LATEST), start=1):
        states = operator.at("a", name)
        states.list.add(number)
        states.reducing.add(number)
        states.aggregating.add(number)
        operator.at("b", name).list.add(number)
        settle()
    states = operator.at("a")
    for state in (states.list, states.reducing, states.aggregating):
        state.merge_namespaces(LATEST, [WINDOW, LATER])
    settle()
    together = operator.at("a", LATEST).seen()
    assert together["list"] == [3, 1, 2]  # first what the target held
    assert together["reducing"] == 6
    assert sorted(together["aggregating"]) == [1, 2, 3]
    for name in (WINDOW, LATER):
        assert operator.at("a", name).seen() == NOTHING
        assert operator.at("b", name).seen()["list"] != []


def test_namespaces_are_merged_into_an_empty_one(operator: Operator, settle: Callable[[], object]) -> None:
    states = operator.at("a", WINDOW)
    states.list.add(1)
    states.reducing.add(1)
    states.aggregating.add(1)
    settle()
    states = operator.at("a")
    for state in (states.list, states.reducing, states.aggregating):
        state.merge_namespaces(LATEST, [WINDOW, LATER])  # LATER holds nothing
        state.merge_namespaces(LATER, [])
    settle()
    expected = {**NOTHING, "list": [1], "reducing": 1, "aggregating": (1,)}
    assert operator.at("a", LATEST).seen() == expected
    assert operator.at("a", WINDOW).seen() == operator.at("a", LATER).seen() == NOTHING


# --- objects that user code may change


def test_changing_what_was_read_changes_nothing_that_is_committed(operator: Operator) -> None:
    states = operator.at("a")
    states.value.update({"n": [1]})
    states.list.update([[1], [2]])
    states.map.put("k", [1])
    states.reducing.add([1])
    states.aggregating.add([1])
    operator.commit()
    expected = copy.deepcopy(operator.at("a").seen())
    states.value.value()["n"].append("changed")
    for element in states.list.get():
        element.append("changed")
    states.map.get("k").append("changed")
    for entry in states.map.items():
        entry[1].append("changed")
    for value in states.map.values():
        value.append("changed")
    states.reducing.get().append("changed")
    states.aggregating.get()[0].append("changed")
    assert operator.commit() == [[]]
    assert operator.at("a").seen() == expected


def test_an_accumulator_that_is_changed_in_place_goes_back_with_a_failed_attempt(operator: Operator) -> None:
    operator.at("a").aggregating.add(1)
    operator.at("a").reducing.add([1])
    operator.commit()
    operator.at("a").aggregating.add(2)
    operator.at("a").reducing.get().append(2)
    operator.at("a").reducing.add([3])
    operator.abort()
    assert operator.at("a").aggregating.get() == (1,)
    assert operator.at("a").reducing.get() == [1]


def test_an_object_that_was_put_earlier_and_is_changed_later_changes_nothing(
    operator: Operator, new_backend: NewBackend
) -> None:
    kept: list[Any] = [1]  # as a function does that holds on to an object of its own
    states = operator.at("a")
    states.value.update(kept)
    states.list.add(kept)
    states.map.put("k", kept)
    states.reducing.add(kept)
    states.aggregating.add(kept)
    operator.commit()
    kept.append("changed")
    assert operator.at("a").seen() == Operator(new_backend, files=operator.files).at("a").seen()


def test_values_that_cannot_be_compared(operator: Operator, new_backend: NewBackend) -> None:
    np = pytest.importorskip("numpy")
    for key in ("a", "b"):
        operator.at(key).value.update(np.arange(3))
        operator.at(key).list.add(np.arange(3))
        operator.at(key).map.put("k", np.arange(3))
        operator.at(key).reducing.add(np.arange(3))
        operator.at(key).aggregating.add(np.arange(3))
    operator.commit()
    operator.at("b").clear()
    operator.at("a").reducing.add(np.arange(3))
    operator.commit()
    seen = Operator(new_backend, files=operator.files).at("a").seen()
    assert seen["value"].tolist() == seen["list"][0].tolist() == seen["map"]["k"].tolist() == [0, 1, 2]
    assert seen["reducing"].tolist() == [0, 2, 4]


# --- what was read can be read again


def test_elements_and_entries_can_be_looped_over_again(operator: Operator, settle: Callable[[], object]) -> None:
    states = operator.at("a")
    states.list.add_all([1, 2])
    states.map.put_all({"x": 1, "y": 2})
    settle()
    states = operator.at("a")
    states.list.add(3)
    read = (states.list.get(), states.map.items(), states.map.keys(), states.map.values())
    expected: tuple[list[Any], ...] = ([1, 2, 3], [("x", 1), ("y", 2)], ["x", "y"], [1, 2])
    for one, wanted in zip(read, expected, strict=True):
        assert [list(one), list(one)] == [wanted, wanted]
        assert len(one) == len(wanted)
    for one, wanted in zip(read[1:], expected[1:], strict=True):
        assert [next(one), next(one), next(one, "the end")] == [*wanted, "the end"]


def test_what_was_read_is_not_the_state(operator: Operator, settle: Callable[[], object]) -> None:
    states = operator.at("a")
    states.list.add_all([1, 2])
    states.map.put("x", 1)
    settle()
    states = operator.at("a")
    before = states.list.get(), states.map.items()
    states.list.add(3)
    states.map.put("y", 2)
    assert (list(before[0]), list(before[1])) == ([1, 2], [("x", 1)])
    for read in (*before, states.list.get(), states.map.keys()):
        read.clear()
    assert list(states.list.get()) == [1, 2, 3]
    assert dict(states.map.items()) == {"x": 1, "y": 2}


def test_what_was_read_is_stored_and_sent_as_a_list(operator: Operator) -> None:
    states = operator.at("a")
    states.list.add_all([1, 2])
    states.map.put_all({"x": 1, "y": 2})
    for read in (states.list.get(), states.map.values()):
        states.value.update(read)
        operator.commit()
        value = operator.at("a").value.value()
        assert (type(value), value) == (list, [1, 2])
        for copied in (copy.deepcopy(read), pickle.loads(pickle.dumps(read))):
            assert (type(copied), copied) == (list, [1, 2])
