"""A call of a user function that is taken back leaves no trace in state and timers, whatever it did, on every backend.

Two backends run the same calls, but one of them also runs calls that are taken back. They must not differ.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.keyed_state import Backends, Joined
from tidemill.common.time import Time
from tidemill.common.typeinfo import Types
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.keyed.kinds import KINDS
from tidemill.state.keyed.undo import UndoLog

KEYS = ("a", "b", 3)
NAMESPACES = (None, 1, 2)


class States:
    """One state of each kind, mutable and not, and timers."""

    def __init__(self, backend: KeyedStateBackend, undo: UndoLog | None) -> None:
        self.backend = backend
        if undo is not None:
            backend.note_changes_in(undo)
        expiring = ValueStateDescriptor("expiring", Types.PICKLED_BYTE_ARRAY())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.all: dict[str, Any] = {
            "number": backend.value_state(ValueStateDescriptor("number", Types.LONG())),
            "object": backend.value_state(ValueStateDescriptor("object")),
            "expiring": backend.value_state(expiring),
            "numbers": backend.list_state(ListStateDescriptor("numbers", Types.LONG())),
            "objects": backend.list_state(ListStateDescriptor("objects")),
            "long_map": backend.map_state(MapStateDescriptor("long_map", Types.STRING(), Types.LONG())),
            "map": backend.map_state(MapStateDescriptor("map")),
            "sum": backend.reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())),
            "joined": backend.aggregating_state(AggregatingStateDescriptor("joined", Joined())),
        }
        backend.begin_epoch()

    def content(self) -> dict[Any, Any]:
        """All that can be seen of it, the order of map entries included."""
        found: dict[Any, Any] = {}
        for name, state in self.all.items():
            for namespace in NAMESPACES:
                state.set_current_namespace(namespace)
                for self.backend.context.key in KEYS:
                    found[name, namespace, self.backend.context.key] = seen(state)
        for queue in (self.backend.event_timers, self.backend.processing_timers):
            found[id(queue) == id(self.backend.event_timers)] = list(queue.pending())
        return found

    def commit(self) -> None:
        self.backend.export_delta()
        self.backend.fold()
        self.backend.begin_epoch()


def seen(state: Any) -> Any:
    for method in ("items", "value", "get"):
        if hasattr(state, method):
            found = getattr(state, method)()
            return repr(list(found) if method == "items" or hasattr(found, "__next__") else found)
    raise AssertionError(state)


def call(states: States, dice: random.Random, *, in_place: bool) -> None:
    """What a user function might do for one record; ``in_place`` it also changes objects that it has only read."""
    backend, number = states.backend, dice.randrange(100)
    backend.context.key = dice.choice(KEYS)
    for _ in range(dice.randrange(1, 7)):
        name = dice.choice(list(states.all))
        state = states.all[name]
        state.set_current_namespace(dice.choice(NAMESPACES))
        OPERATIONS[name](state, dice, number, in_place)
    queue = dice.choice([backend.event_timers, backend.processing_timers])
    timer = (dice.randrange(8), backend.context.key, dice.choice([None, None, 1]))
    queue.delete(*timer) if dice.random() < 0.4 else queue.register(*timer)


def one_of(dice: random.Random, *actions: Callable[[], object]) -> None:
    dice.choice(actions)()


def on_number(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    one_of(dice, lambda: state.update(number), state.clear, lambda: state.update((state.value() or 0) + 1))


def on_object(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    value = state.value() or []
    if in_place or dice.random() < 0.7:
        value.append([number])
        value[0].append(number)
    if not in_place or dice.random() < 0.5:
        state.update(value) if dice.random() < 0.8 else state.clear()


def on_numbers(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    one_of(dice, lambda: state.add(number), lambda: state.add_all([number, 1]), lambda: list(state.get()))
    if dice.random() < 0.2:
        one_of(dice, state.clear, lambda: state.update([*state.get(), number]))


def on_objects(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    if dice.random() < 0.5:
        state.add({"n": number})
    items = list(state.get()) if dice.random() < 0.6 else []
    if in_place:
        for item in items:
            item["n"] = "changed"
    if dice.random() < 0.3:
        state.update(items) if dice.random() < 0.8 else state.clear()


def on_map(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    key = dice.choice("wxyz")
    value = state.get(key)
    if isinstance(value, list) and in_place:
        value.append("changed")
    if in_place:
        for item in state.values():
            item.append("changed") if isinstance(item, list) else None
    one_of(
        dice,
        lambda: state.put(key, [number]),
        lambda: state.put_all({key: [1], (key, 1): [2]}),
        lambda: state.put_all(iter([(key, [number]), (key, [3])])),
        lambda: state.remove(key),
        lambda: state.contains(key),
        lambda: list(state.items()),
        state.clear if dice.random() < 0.3 else state.is_empty,
    )


def on_long_map(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    key = dice.choice("wxyz")
    one_of(
        dice,
        lambda: state.put(key, number),
        lambda: state.remove(key),
        lambda: list(state.keys()),
        lambda: state.get(key),
    )


def on_sum(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    one_of(dice, lambda: state.add(number), state.get, state.clear)


def on_joined(state: Any, dice: random.Random, number: int, in_place: bool) -> None:
    one_of(dice, lambda: state.add(number), lambda: state.add(number), state.get, state.clear)
    if dice.random() < 0.2:
        state.merge_namespaces(1, [2, None])


OPERATIONS: dict[str, Callable[[Any, random.Random, int, bool], None]] = {
    "number": on_number,
    "object": on_object,
    "expiring": on_object,
    "numbers": on_numbers,
    "objects": on_objects,
    "long_map": on_long_map,
    "map": on_map,
    "sum": on_sum,
    "joined": on_joined,
}


@pytest.mark.parametrize("seed", range(4))
def test_calls_that_are_taken_back_leave_no_trace(new_backend: Backends, seed: int) -> None:
    dice, log = random.Random(seed), UndoLog()
    tried, plain = States(new_backend(), log), States(new_backend(), None)
    for _ in range(5):
        for _ in range(40):
            if dice.random() < 0.5:
                log.begin()
                call(tried, random.Random(dice.random()), in_place=True)
                log.roll_back()
            else:
                what = dice.random()
                log.begin()
                call(tried, random.Random(what), in_place=False)
                log.keep()
                call(plain, random.Random(what), in_place=False)
        assert tried.content() == plain.content()
        tried.commit()
        plain.commit()
        assert tried.content() == plain.content()


def test_appending_to_a_long_list_notes_its_length_only(new_backend: Backends) -> None:
    backend, log = new_backend(), UndoLog()
    backend.note_changes_in(log)
    state = backend.list_state(ListStateDescriptor("list"))
    backend.context.key = "k"

    class Heavy:
        copies = 0

        def __deepcopy__(self, memo: Any) -> Heavy:
            Heavy.copies += 1
            return self

    for number in range(50):
        log.begin()
        state.add(Heavy())
        log.keep() if number % 2 else log.roll_back()
    assert Heavy.copies == 0
    assert len(list(state.get())) == 25


def test_a_timer_that_fired_stays_gone(new_backend: Backends) -> None:
    backend, log = new_backend(), UndoLog()
    backend.note_changes_in(log)
    backend.event_timers.register(1, "k")
    log.begin()
    assert backend.event_timers.pop_due(5) == (1, "k", None)
    backend.event_timers.register(2, "k")
    log.roll_back()
    assert list(backend.event_timers.pending()) == []


#: Methods that change nothing and hand nothing out, or do so through others.
HARMLESS = {
    "new_each",
    "set_current_namespace",
    "begin_epoch",
    "keep_unshared",
    "merge_namespaces",
    "is_empty",
    "peek",
    "replace",
    "get_internal_state",
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_method_of_a_state_goes_unwatched(kind: str) -> None:
    """A method that is new must be thought of here: does it go through one that is watched?"""
    through = {
        "value": set(),
        "reducing": {"add", "add_all", "get"},  # through _get() and clear()
        "aggregating": {"add", "add_all", "get"},
        "list": set(),
        "map": {"get", "contains", "items", "keys", "values"},  # through _entry() and _items()
    }[kind]
    plain, watched = KINDS[kind].state, KINDS[kind].watched
    for name, method in inspect.getmembers(plain, inspect.isfunction):
        if not name.startswith("_") and name not in HARMLESS | through:
            assert getattr(watched, name) is not method, f"{plain.__name__}.{name} is not watched"
