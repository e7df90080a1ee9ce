"""A machine that does to keyed state whatever a job can do to it, and compares it with a model.

It writes, reads, commits, fails, restarts warm and cold, merges files, changes parallelism, and moves from one backend
to another, in any order.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.contract.keyed_state import (
    CONFIGURATIONS,
    KINDS,
    TYPED,
    UNTYPED,
    Backends,
    Colour,
    Declared,
    Operator,
    Point,
    merged,
)
from tests.contract.keyed_state_model import TIMER_STATES, Cell, Model, Timer
from tests.thorough import how_many
from tidemill.state.keys.key_groups import key_group_of

#: Examples per machine; ``TIDEMILL_EXAMPLES`` asks for more of them.
EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", how_many(20, 60)))

#: Examples per seed: those that follow are mostly variations of each other.
PER_SEED = 10

SETTINGS = settings(
    max_examples=PER_SEED,
    stateful_step_count=15,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Material:
    """What a machine works with: the types of its states, and few enough keys that their histories get long."""

    declared: Declared
    keys: list[Any]
    names: list[Any]
    user_keys: list[Any]
    values: st.SearchStrategy[Any]


#: What an epoch does with a cell; each is a method of the machine.
CHANGES = (
    "update", "reduce", "aggregate", "append", "append_all", "replace_list", "put_entry", "put_entries", "remove_entry",
    "clear", "clear_all", "merge_namespaces", "register", "delete", "fire", "look", "look_at_an_entry",
    "look_at_keys", "prefetch",
)  # fmt: skip
DOMAINS = st.sampled_from(sorted(TIMER_STATES))
TIMES = st.integers(0, 5)

WINDOWS = [(0, 5), (5, 9), (0, 9)]
LONGS = st.integers(-(2**40), 2**40) | st.integers(0, 3)

MATERIALS = {
    # Whatever Python offers; 1 and True are one key, "a" and b"a" are two.
    "any types": Material(
        UNTYPED,
        ["a", b"a", 1, True, None, ("t", 2), Point(1, "a"), Colour.RED],
        [None, *WINDOWS[:2]],
        ["x", b"x", 1, 1.0, None, ("u",)],
        st.one_of(
            st.integers(0, 3),
            st.text(max_size=3),
            st.lists(st.integers(0, 3), max_size=2),
            st.dictionaries(st.text(max_size=1), st.integers(0, 3), max_size=2),
            st.sampled_from([0.5, b"b", (1, "a"), 2**80, True, Point(2, "b")]),
        ),
    ),
    # Declared types and no namespaces: the way of most programs, where files are merged as columns.
    "declared types": Material(TYPED, list(range(8)), [None], ["x", "y", "z", ""], LONGS),
    # Declared types in windows.
    "windows": Material(TYPED, [0, 1, -5], WINDOWS, ["x", "y"], LONGS),
}


class KeyedStateMachine(RuleBasedStateMachine):
    """One operator on one backend after the other, beside its model."""

    _material: Material
    _configurations: list[str]

    def __init__(self) -> None:
        super().__init__()
        self._backends: Backends
        self._cells: list[Cell] = []
        self._changes: list[str] = []
        self.model = Model()
        self.operator: Operator

    def teardown(self) -> None:
        if hasattr(self, "_backends"):
            try:
                self._look_at_everything()
            finally:
                self._backends.close()

    def _start(self, configuration: str, parallelism: int, files: list[bytes]) -> None:
        if hasattr(self, "_backends"):
            self._backends.close()
        self._backends = Backends(configuration)
        self.operator = Operator(self._backends, parallelism, files, self._material.declared)

    # --- what is drawn

    def _configuration(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self._configurations))

    def _cell(self, data: st.DataObject) -> Cell:
        return data.draw(st.sampled_from(self._cells))

    def _user_key(self, data: st.DataObject) -> Any:
        return data.draw(st.sampled_from(self._material.user_keys))

    def _values(self, data: st.DataObject, at_most: int) -> list[Any]:
        return data.draw(st.lists(self._material.values, max_size=at_most))

    @initialize(data=st.data(), parallelism=st.integers(1, 3))
    def start(self, data: st.DataObject, parallelism: int) -> None:
        # Few cells and few kinds of changes: so that what one does, another meets again.
        names = data.draw(st.lists(st.sampled_from(self._material.names), min_size=1, max_size=2))
        keys = data.draw(st.lists(st.sampled_from(self._material.keys), min_size=1, max_size=3))
        self._cells = [(key, name) for key in keys for name in names]
        self._changes = data.draw(st.lists(st.sampled_from(CHANGES), min_size=5, max_size=12))
        self._start(self._configuration(data), parallelism, [])

    # --- writing

    def _write(self, data: st.DataObject) -> None:
        for change in data.draw(st.lists(st.sampled_from(self._changes), min_size=1, max_size=10)):
            getattr(self, f"_{change}")(data, self._cell(data))

    def _update(self, data: st.DataObject, cell: Cell) -> None:
        value = data.draw(st.none() | self._material.values)
        self.operator.at(*cell).value.update(copy.deepcopy(value))
        self.model.put("value", cell, value)

    def _reduce(self, data: st.DataObject, cell: Cell) -> None:
        number = data.draw(st.integers(0, 9))
        self.operator.at(*cell).reducing.add(number)
        self.model.put("reducing", cell, (self.model.seen(cell)["reducing"] or 0) + number)

    def _aggregate(self, data: st.DataObject, cell: Cell) -> None:
        number = data.draw(st.integers(0, 9))
        self.operator.at(*cell).aggregating.add(number)
        self.model.put("aggregating", cell, (*(self.model.seen(cell)["aggregating"] or ()), number))

    def _append(self, data: st.DataObject, cell: Cell) -> None:
        items = self._values(data, at_most=3)
        for item in copy.deepcopy(items):
            self.operator.at(*cell).list.add(item)
        self.model.append(cell, items)

    def _append_all(self, data: st.DataObject, cell: Cell) -> None:
        items = self._values(data, at_most=3)
        self.operator.at(*cell).list.add_all(copy.deepcopy(items))
        self.model.append(cell, items)

    def _replace_list(self, data: st.DataObject, cell: Cell) -> None:
        items = self._values(data, at_most=2)
        self.operator.at(*cell).list.update(copy.deepcopy(items))
        self.model.replace_list(cell, items)

    def _put_entry(self, data: st.DataObject, cell: Cell) -> None:
        user_key, value = self._user_key(data), data.draw(st.none() | self._material.values)
        self.operator.at(*cell).map.put(user_key, copy.deepcopy(value))
        self.model.put_entries(cell, {user_key: value})

    def _put_entries(self, data: st.DataObject, cell: Cell) -> None:
        user_keys = st.sampled_from(self._material.user_keys)
        entries = data.draw(st.dictionaries(user_keys, self._material.values, max_size=3))
        self.operator.at(*cell).map.put_all(copy.deepcopy(entries))
        self.model.put_entries(cell, entries)

    def _remove_entry(self, data: st.DataObject, cell: Cell) -> None:
        user_key = self._user_key(data)
        self.operator.at(*cell).map.remove(user_key)
        self.model.remove_entry(cell, user_key)

    def _clear(self, data: st.DataObject, cell: Cell) -> None:
        kind = data.draw(st.sampled_from(KINDS))
        getattr(self.operator.at(*cell), kind).clear()
        self.model.clear(kind, cell)

    def _clear_all(self, data: st.DataObject, cell: Cell) -> None:
        self.operator.at(*cell).clear()
        for kind in KINDS:
            self.model.clear(kind, cell)

    def _merge_namespaces(self, data: st.DataObject, cell: Cell) -> None:
        key, target = cell
        sources = [name for name in self._material.names if name != target]
        states = self.operator.at(key)
        for state in (states.list, states.reducing, states.aggregating):
            state.merge_namespaces(target, sources)
        held = [self.model.seen((key, name)) for name in (target, *sources)]
        moved = [item for at_name in held[1:] for item in at_name["list"]]
        numbers = [at_name["reducing"] for at_name in held if at_name["reducing"] is not None]
        joined = [at_name["aggregating"] for at_name in held if at_name["aggregating"] is not None]
        self.model.append(cell, moved)
        if numbers:
            self.model.put("reducing", cell, sum(numbers))
        if joined:
            self.model.put("aggregating", cell, sum(joined, ()))
        for name in sources:
            for kind in ("list", "reducing", "aggregating"):
                self.model.clear(kind, (key, name))

    # --- timers

    def _register(self, data: st.DataObject, cell: Cell) -> None:
        domain, time = data.draw(DOMAINS), data.draw(TIMES)
        self._timers(cell[0], domain).register(time, *cell)
        self.model.register(domain, (time, *cell))

    def _delete(self, data: st.DataObject, cell: Cell) -> None:
        domain = data.draw(DOMAINS)
        timer = data.draw(st.sampled_from([*self.model.pending(domain), (data.draw(TIMES), *cell)]))
        self._timers(timer[1], domain).delete(*timer)
        self.model.delete(domain, timer)

    def _fire(self, data: st.DataObject, cell: Cell) -> None:
        domain, until = data.draw(DOMAINS), data.draw(TIMES)
        for number, states in enumerate(self.operator.subtasks):
            due = [timer for timer in self._pending(number, domain) if timer[0] <= until]
            queue = getattr(states.backend, domain)
            fired = []
            while (timer := queue.pop_due(until)) is not None:
                fired.append(timer)
            assert fired == due
            for timer in fired:
                self.model.delete(domain, timer)

    def _timers(self, key: Any, domain: str) -> Any:
        return getattr(self.operator.owner(key).backend, domain)

    def _pending(self, subtask: int, domain: str) -> list[Timer]:
        groups = self.operator.subtasks[subtask].backend.groups
        return [
            timer
            for timer in self.model.pending(domain)
            if key_group_of(timer[1], self.operator.max_parallelism) in groups
        ]

    # --- epochs: each rule begins with one that counts, so that there is something to lose

    @rule(data=st.data(), careless=st.booleans(), look=st.booleans())
    def commit(self, data: st.DataObject, careless: bool, look: bool) -> None:
        """The epoch counts; a careless function changes objects that it has read, and does not put them back."""
        self._write(data)
        if careless:
            self._change_what_was_read()
        for delta in self.operator.commit():
            self.model.check_delta(delta)
        self.model.commit()
        if look:
            self._look_at_everything()

    @rule(data=st.data(), at_barrier=st.booleans())
    def fail(self, data: st.DataObject, at_barrier: bool) -> None:
        """The attempt after does not count."""
        self.commit(data, careless=False, look=False)
        self._write(data)
        if at_barrier:
            self.operator.abort()
        else:
            for states in self.operator.subtasks:
                states.backend.discard()
                states.backend.begin_epoch()
        self.model.discard()
        self._look_at_everything()

    @rule(data=st.data(), parallelism=st.integers(1, 4), whole=st.booleans())
    def restart(self, data: st.DataObject, parallelism: int, whole: bool) -> None:
        """Between two epochs, all subtasks go to other workers: from the files, or from a copy of the whole state."""
        self.commit(data, careless=False, look=False)
        configuration, files = self._configuration(data), self.operator.files
        before = self._orders() if _backend(configuration) == _backend(self._backends.configuration) else None
        self._start(configuration, parallelism, self.operator.exported() if whole else files)
        if before is not None:
            assert self._orders() == before, "the order of map entries depends on the history of the worker"
        self._look_at_everything()

    @rule(data=st.data(), parallelism=st.integers(1, 4))
    def crash(self, data: st.DataObject, parallelism: int) -> None:
        """In the middle of an epoch all workers are lost, and with them what was not committed."""
        self.commit(data, careless=False, look=False)
        self._write(data)
        self._start(self._configuration(data), parallelism, self.operator.files)
        self.model.discard()
        self._look_at_everything()

    @rule(data=st.data(), from_the_start=st.booleans())
    def merge_files(self, data: st.DataObject, from_the_start: bool) -> None:
        """A background snapshot of the oldest files, or a merge of some in the middle."""
        self.commit(data, careless=False, look=False)
        files = self.operator.files
        bounds = st.integers(0, len(files))
        first, last = (0, data.draw(bounds)) if from_the_start else sorted((data.draw(bounds), data.draw(bounds)))
        files[first:last] = merged(files[first:last], keep_deletes=first > 0)

    # --- reading

    def _look(self, data: st.DataObject, cell: Cell) -> None:
        assert self.operator.at(*cell).seen() == self.model.seen(cell)

    def _look_at_an_entry(self, data: st.DataObject, cell: Cell) -> None:
        user_key, entries = self._user_key(data), self.model.seen(cell)["map"]
        a_map = self.operator.at(*cell).map
        assert a_map.contains(user_key) is (user_key in entries)
        assert a_map.get(user_key) == entries.get(user_key)
        assert a_map.is_empty() is (not entries)

    def _prefetch(self, data: st.DataObject, cell: Cell) -> None:
        """As before a batch of records; it must not be seen in anything but speed."""
        for states in self.operator.subtasks:
            states.backend.prefetch([key for key, _ in self._cells if self.operator.owner(key) is states])

    def _look_at_keys(self, data: st.DataObject, cell: Cell) -> None:
        self._compare_keys(cell[1])

    def _compare_keys(self, name: Any) -> None:
        for kind in KINDS:
            held = self.operator.keys(kind, name)
            assert len(held) == len(set(held))
            assert set(held) == self.model.keys(kind, name)

    def _look_at_everything(self) -> None:
        for key in dict.fromkeys(key for key, _ in self._cells):
            for name in self._material.names:
                assert self.operator.at(key, name).seen() == self.model.seen((key, name))
        for name in self._material.names:
            self._compare_keys(name)
        for domain in TIMER_STATES:
            for number, states in enumerate(self.operator.subtasks):
                queue, expected = getattr(states.backend, domain), self._pending(number, domain)
                assert list(queue.pending()) == expected
                assert len(queue) == len(expected)
                assert queue.peek() == (expected[0][0] if expected else None)
        if self.model.clean:
            entries = sum(states.backend.entries() for states in self.operator.subtasks)
            assert (entries == 0) is self.model.is_empty()

    def _change_what_was_read(self) -> None:
        for cell in self._cells:
            states = self.operator.at(*cell)
            for kind, read in (
                ("value", lambda states=states: [states.value.value()]),
                ("list", lambda states=states: states.list.get()),
                ("map", lambda states=states: states.map.values()),
            ):
                if self.model.untouched(kind, cell):
                    for value in read():
                        if isinstance(value, list):
                            value.append("changed")

    def _orders(self) -> list[list[Any]]:
        return [list(self.operator.at(*cell).map.keys()) for cell in self._cells]


def run(
    material: str,
    configurations: Iterable[str] = CONFIGURATIONS,
    how: settings = SETTINGS,
    seeds: Iterable[int] = range(-(-EXAMPLES // PER_SEED)),
) -> None:
    """Let machines work with a material, on backends of some configurations; the same seeds give the same examples."""
    attributes = {"_material": MATERIALS[material], "_configurations": sorted(configurations)}
    machine = type("Machine", (KeyedStateMachine,), attributes)
    for number in seeds:
        run_state_machine_as_test(seed(number)(machine), settings=how)


def _backend(configuration: str) -> str:
    """The backend of a configuration, without its options."""
    return configuration.partition("-")[0]
