"""What an epoch does to committed state: a delta of what it changed, a fold or a way back, a restore that is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.keyed_state import (
    KINDS,
    NOTHING,
    NewBackend,
    Operator,
    States,
    abort,
    commit,
    load,
    merged,
    rows_of,
    to_file,
)
from tidemill.common import Types
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import SerializationError
from tidemill.state.files.rows import APPEND
from tidemill.state.files.sections import read_rows

WINDOW = (0, 10)


@pytest.fixture
def operator(new_backend: NewBackend) -> Operator:
    return Operator(new_backend)


# --- the delta holds what changed


def test_an_epoch_that_only_reads_writes_nothing(operator: Operator) -> None:
    operator.at("a").fill(1)
    operator.at("a", WINDOW).fill(2)
    operator.commit()
    operator.at("a").seen()
    operator.at("a", WINDOW).seen()
    for kind in KINDS:
        operator.keys(kind)
    assert operator.commit() == [[]]
    assert operator.commit() == [[]]


def test_only_states_that_changed_are_in_the_delta(operator: Operator) -> None:
    for key in range(50):
        operator.at(key).fill(key)
    assert rows_of(operator.commit()[0]) == dict.fromkeys(KINDS, 50)
    operator.at(7).value.update("new")
    operator.at(8).reducing.add(1)
    operator.at(9).aggregating.clear()
    assert rows_of(operator.commit()[0]) == {"value": 1, "reducing": 1, "aggregating": 1}


def test_appending_to_a_long_list_writes_only_what_is_appended(operator: Operator) -> None:
    operator.at("a").list.update(range(10_000))
    operator.commit()
    operator.at("a").list.add("x")
    operator.at("a").list.add_all(["y", "z"])
    [section] = operator.commit()[0]
    rows = read_rows(section)
    assert (rows.keys, rows.ops, rows.values) == (["a"], [APPEND], [["x", "y", "z"]])
    assert len(list(operator.at("a").list.get())) == 10_003


def test_touching_one_entry_of_a_large_map_writes_only_it(operator: Operator, new_backend: NewBackend) -> None:
    operator.at("a").map.put_all({number: number for number in range(10_000)})
    operator.commit()
    operator.at("a").map.put(5, "new")
    operator.at("a").map.remove(6)
    [section] = operator.commit()[0]
    assert sorted(read_rows(section).user_keys) == [5, 6]
    operator.at("a").map.clear()
    [section] = operator.commit()[0]
    assert section.table.num_rows == 1
    assert Operator(new_backend, files=operator.files).at("a").map.is_empty()


def test_what_is_put_and_removed_in_one_epoch_was_never_there(operator: Operator) -> None:
    operator.at("a").fill(1).clear()
    operator.at("b").list.add(1)
    operator.at("b").list.clear()
    operator.at("c").map.put("x", 1)
    operator.at("c").map.remove("x")
    operator.at("d", WINDOW).fill(1).clear()
    assert operator.commit() == [[]]


def test_the_delta_can_be_taken_again_until_the_epoch_ends(operator: Operator) -> None:
    backend = operator.at("a").fill(1).backend
    operator.at("b", WINDOW).fill(2)
    backend.event_timers.register(5, "a")
    assert to_file(backend.export_delta()) == to_file(backend.export_delta())


# --- fold and discard


def test_a_fold_counts_once(operator: Operator, new_backend: NewBackend) -> None:
    operator.at("a").fill(1)
    operator.at("a").list.add(2)
    operator.commit()
    for states in operator.subtasks:
        states.backend.fold()
        states.backend.begin_epoch()
    once = {"value": 1, "list": [1, 2], "map": {"1": 1}, "reducing": 1, "aggregating": (1,)}
    assert operator.at("a").seen() == once
    assert operator.commit() == [[]]
    assert Operator(new_backend, files=operator.files).at("a").seen() == once


def replace(states: States) -> None:
    states.value.update(9)
    states.list.update([9])
    states.map.put("1", 9)


def clear_and_fill(states: States) -> None:
    states.clear()
    states.fill(9)


CHANGES: dict[str, Callable[[States], object]] = {
    "new values": lambda states: states.fill(9),
    "replaced values": replace,
    "cleared values": States.clear,
    "removed entries": lambda states: states.map.remove("1"),
    "cleared and put": clear_and_fill,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", [("a", None), ("a", WINDOW), ("new", None), ("a", (10, 20))], ids=str)
def test_a_failed_attempt_leaves_everything_as_it_was(
    operator: Operator, change: str, where: tuple[str, tuple[int, int] | None]
) -> None:
    operator.at("a").fill(1)
    operator.at("a", WINDOW).fill(2)
    operator.commit()
    before = operator.at(*where).seen()
    for _ in range(2):  # the attempt fails at its barrier, and again
        CHANGES[change](operator.at(*where))
        operator.abort()
        assert operator.at(*where).seen() == before
    assert operator.at("a").seen()["list"] == [1]
    assert operator.at("a", WINDOW).seen()["list"] == [2]
    assert operator.keys("value") == operator.keys("value", WINDOW) == ["a"]
    assert operator.commit() == [[]]


def test_the_attempt_after_a_failed_one_counts_alone(operator: Operator, new_backend: NewBackend) -> None:
    operator.at("a").fill(1)
    operator.commit()
    operator.at("a").fill(100)
    operator.at("b").fill(100)
    operator.abort()
    operator.at("a").fill(2)
    operator.commit()
    expected = {"value": 2, "list": [1, 2], "map": {"1": 1, "2": 2}, "reducing": 3, "aggregating": (1, 2)}
    for found in (operator, Operator(new_backend, files=operator.files)):
        assert found.at("a").seen() == expected
        assert found.at("b").seen() == NOTHING


def test_a_value_that_cannot_be_stored_is_an_error_that_names_the_state(new_backend: NewBackend) -> None:
    backend = new_backend()
    state = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    backend.context.key = "a"
    state.update("text")
    with pytest.raises(SerializationError, match=r"state 'v' of operator 'op'"):
        backend.export_delta()
    backend.discard()
    backend.begin_epoch()
    assert state.value() is None


# --- restore


def history(operator: Operator) -> None:
    """Some epochs that put, replace, append, remove and clear."""
    for number, key in enumerate(("a", "b", "c", "d")):
        operator.at(key).fill(number)
        operator.at(key, WINDOW).fill(number)
    operator.commit()
    operator.at("a").fill(10)
    operator.at("b").clear()
    operator.at("c").map.remove("2")
    operator.at("c", WINDOW).list.update([7, 8])
    operator.commit()
    operator.at("b").fill(20)
    operator.at("a", WINDOW).clear()
    operator.at("d").map.clear()
    operator.at("d").map.put("3", "again")
    operator.commit()


def everything(operator: Operator) -> dict[Any, Any]:
    return {(key, name): operator.at(key, name).seen() for key in "abcde" for name in (None, WINDOW, (10, 20))}


def test_a_restore_from_all_deltas_is_exact(operator: Operator, new_backend: NewBackend) -> None:
    history(operator)
    again = Operator(new_backend, files=operator.files)
    assert everything(again) == everything(operator)
    assert again.commit() == [[]]
    again.at("a").fill(5)
    again.commit()
    assert everything(Operator(new_backend, files=again.files)) == everything(again)


def test_a_restore_from_the_whole_state_is_exact(operator: Operator, new_backend: NewBackend) -> None:
    history(operator)
    assert everything(Operator(new_backend, files=operator.exported())) == everything(operator)


@pytest.mark.parametrize("cut", range(4))
def test_a_restore_from_a_snapshot_and_later_deltas_is_exact(
    operator: Operator, new_backend: NewBackend, cut: int
) -> None:
    history(operator)
    older, newer = operator.files[:cut], operator.files[cut:]
    for files in (
        [*merged(older, keep_deletes=False), *newer],
        [*older, *merged(newer, keep_deletes=True)],
        merged([*merged(older, keep_deletes=True), *merged(newer, keep_deletes=True)], keep_deletes=False),
    ):
        assert everything(Operator(new_backend, files=files)) == everything(operator)


def test_state_is_loaded_before_or_after_it_is_registered(operator: Operator, new_backend: NewBackend) -> None:
    history(operator)
    early = States(new_backend())
    load(early.backend, operator.files)
    late = States(load(new_backend(), operator.files))
    for states in (early, late):
        assert states.at("a").seen() == operator.at("a").seen()
        assert states.at("c", WINDOW).seen() == operator.at("c", WINDOW).seen()


def test_state_that_is_not_registered_is_left_alone(operator: Operator, new_backend: NewBackend) -> None:
    history(operator)
    backend = load(new_backend(), operator.files)
    state = backend.value_state(ValueStateDescriptor("another"))
    backend.context.key = "a"
    state.update(1)
    assert rows_of(commit(backend)) == {"another": 1}


def test_iteration_does_not_depend_on_the_history_of_the_worker(operator: Operator, new_backend: NewBackend) -> None:
    for number in (5, 3, 8, 1):
        operator.at("a").map.put(number, number)
        operator.commit()
    operator.at("a").map.remove(5)
    operator.commit()
    operator.at("a").map.put(5, "again")
    operator.at("a").map.put(3, "new")
    operator.commit()
    expected = list(operator.at("a").map.items())
    for files in (operator.files, merged(operator.files, keep_deletes=False), operator.exported()):
        assert list(Operator(new_backend, files=files).at("a").map.items()) == expected


def test_the_order_of_keys_does_not_depend_on_the_history_of_the_worker(new_backend: NewBackend) -> None:
    operator = Operator(new_backend, max_parallelism=1)  # so that all keys are of one group
    for key in range(10):
        operator.at(key).fill(key)
    operator.commit()
    operator.at(0).clear()
    operator.commit()
    operator.at(0).fill(0)
    operator.commit()
    snapshot = merged(operator.files, keep_deletes=False, max_parallelism=1)
    for files in (operator.files, operator.exported(), snapshot):
        again = Operator(new_backend, files=files, max_parallelism=1)
        for kind in KINDS:
            assert again.keys(kind) == operator.keys(kind)


# --- scanning


def test_a_scan_meets_every_committed_entry(operator: Operator) -> None:
    cells = [(key, name) for key in ("a", "b", 3) for name in (None, WINDOW)]
    for number, cell in enumerate(cells):
        operator.at(*cell).value.update(number)
        operator.at(*cell).map.put_all({"x": number, "y": -number})
        operator.at(*cell).list.add_all([number, number])
    operator.commit()
    operator.at("a").value.update("not committed")
    operator.at("new").value.update("not committed")
    backend = operator.subtasks[0].backend
    assert {(key, name): value for name, key, _, value in backend.scan("value")} == {
        cell: number for number, cell in enumerate(cells)
    }
    assert {(key, name, user_key): value for name, key, user_key, value in backend.scan("map")} == {
        (*cell, user_key): value
        for number, cell in enumerate(cells)
        for user_key, value in (("x", number), ("y", -number))
    }
    assert {(key, name) for name, key, _, _ in backend.scan("list")} == set(cells)


def test_a_scan_can_go_on_in_a_later_epoch(operator: Operator) -> None:
    for key in range(20):
        operator.at(key).value.update(key)
    operator.commit()
    scan = operator.subtasks[0].backend.scan("value")
    met = [next(scan) for _ in range(5)]
    for key in range(0, 20, 2):
        operator.at(key).value.clear()
    operator.at(1).value.update("new")
    operator.at(100).value.update(100)
    operator.commit()
    met += scan
    assert {key for _, key, _, _ in met} >= set(range(1, 20, 2))
    assert len({key for _, key, _, _ in met}) == len(met)


# --- what is cleared leaves nothing


@pytest.mark.parametrize("name", [None, WINDOW], ids=str)
def test_cleared_keys_leave_nothing(operator: Operator, new_backend: NewBackend, name: Any) -> None:
    for key in range(20):
        operator.at(key, name).fill(key)
        operator.owner(key).backend.event_timers.register(key, key, name)
    operator.commit()
    assert operator.subtasks[0].backend.entries() > 0
    for key in range(20):
        operator.at(key, name).clear()
        operator.owner(key).backend.event_timers.delete(key, key, name)
    operator.commit()
    backend = operator.subtasks[0].backend
    assert backend.entries() == 0
    assert backend.export_all() == []
    assert [list(backend.keys(kind, name)) for kind in KINDS] == [[]] * len(KINDS)
    again = load(new_backend(), operator.files)
    States(again)
    assert again.entries() == 0
    assert again.export_all() == []


def test_tombstones_vanish_when_nothing_older_lies_below(operator: Operator) -> None:
    operator.at("a").fill(1)
    operator.at("a", WINDOW).fill(1)
    backend = operator.subtasks[0].backend
    backend.event_timers.register(1, "a")
    operator.commit()
    operator.at("a").clear()
    operator.at("a", WINDOW).clear()
    backend.event_timers.delete(1, "a")
    operator.commit()
    puts, deletes = operator.files
    assert merged([puts, deletes], keep_deletes=False) == []
    assert merged([deletes], keep_deletes=False) == []
    assert merged([puts, deletes], keep_deletes=True) != []


# --- size


def test_values_of_several_megabytes(operator: Operator, new_backend: NewBackend) -> None:
    large = bytes(range(256)) * 4096 * 4  # 4 MB
    states = operator.at("a")
    states.value.update(large)
    states.list.add_all([large, large[1:]])
    states.map.put("x", large)
    states.reducing.add(large)
    operator.commit()
    states.list.add(b"small")
    operator.at("b").fill(1)
    assert len(to_file(operator.commit()[0])) < 50_000
    again = Operator(new_backend, files=operator.files).at("a")
    assert again.value.value() == again.map.get("x") == again.reducing.get() == large
    assert list(again.list.get()) == [large, large[1:], b"small"]


def test_a_key_of_a_megabyte(operator: Operator, new_backend: NewBackend) -> None:
    key = "k" * (1 << 20)
    operator.at(key).fill(1)
    operator.at(key + "x").fill(2)
    operator.commit()
    again = Operator(new_backend, files=operator.files)
    assert again.at(key).seen()["list"] == [1]
    assert again.at(key + "x").seen()["list"] == [2]


def test_a_map_of_many_entries(operator: Operator, new_backend: NewBackend) -> None:
    entries = {number: str(number) for number in range(20_000)}
    operator.at("a").map.put_all(entries)
    operator.at("b").map.put(1, "b")
    operator.commit()
    again = Operator(new_backend, files=operator.files)
    a_map = again.at("a").map
    assert a_map.get(19_999) == "19999"
    a_map.remove(0)
    a_map.put(20_000, "20000")
    assert dict(a_map.items()) == {**{k: v for k, v in entries.items() if k}, 20_000: "20000"}
    a_map.clear()
    again.commit()
    assert again.at("a").map.is_empty()
    assert dict(again.at("b").map.items()) == {1: "b"}


def test_one_attempt_in_the_middle_of_another(new_backend: NewBackend) -> None:
    """A failed attempt between loads: what comes from files is not mixed up with what the attempt wrote."""
    first = Operator(new_backend)
    first.at("a").fill(1)
    first.commit()
    states = States(load(new_backend(), first.files))
    states.at("a").fill(50)
    abort(states.backend)
    first.at("a").fill(2)
    first.commit()
    load(states.backend, first.files[1:])
    assert states.at("a").seen() == first.at("a").seen()
