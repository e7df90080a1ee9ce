"""Keyed state in plain Python: what a backend must be equal to, and what its deltas may hold."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from tests.contract.keyed_state import KINDS, NOTHING
from tidemill.state.files.rows import APPEND, CLEAR
from tidemill.state.files.sections import read_rows
from tidemill.state.files.state_file import Section
from tidemill.state.keys.stable_hash import stable_hash

Cell = tuple[Any, Any]  # key, namespace
Timer = tuple[int, Any, Any]  # time, key, namespace

TIMER_STATES = {"event_timers": "__timers_event", "processing_timers": "__timers_processing"}


class Model:
    """The state and timers of one operator as dicts and sets, with a committed version to go back to.

    What the epoch touched is kept, too: a delta may hold that and nothing else.
    """

    def __init__(self) -> None:
        self.cells: dict[Cell, dict[str, Any]] = {}
        self.timers: dict[str, set[Timer]] = {domain: set() for domain in TIMER_STATES}
        self._committed = (copy.deepcopy(self.cells), copy.deepcopy(self.timers))
        self._forget()

    # --- the epoch

    def commit(self) -> None:
        self._committed = (copy.deepcopy(self.cells), copy.deepcopy(self.timers))
        self._forget()

    def discard(self) -> None:
        self.cells, self.timers = copy.deepcopy(self._committed)
        self._forget()

    @property
    def clean(self) -> bool:
        """Whether the epoch has touched nothing yet."""
        return not any(self._touched.values())

    def is_empty(self) -> bool:
        return not any(self.timers.values()) and not any(self.keys(kind, name) for kind, name in self._places())

    def _forget(self) -> None:
        # State -> what of it was touched: cells, or (key, namespace, user key) of a map, or timers.
        self._touched: dict[str, set[Any]] = {state: set() for state in (*KINDS, *TIMER_STATES.values())}
        self._replaced: set[tuple[str, Cell]] = set()
        self._appended: dict[Cell, list[Any]] = {}

    # --- reading

    def seen(self, cell: Cell) -> dict[str, Any]:
        return self.cells.get(cell, NOTHING)

    def untouched(self, kind: str, cell: Cell) -> bool:
        """Whether a cell of a state is as it was committed."""
        if kind == "map":
            return (kind, cell) not in self._replaced and not any(entry[:2] == cell for entry in self._touched["map"])
        return cell not in self._touched[kind]

    def keys(self, kind: str, namespace: Any) -> set[Any]:
        return {key for (key, name), held in self.cells.items() if name == namespace and held[kind] != NOTHING[kind]}

    def namespaces(self) -> set[Any]:
        return {name for _, name in self.cells}

    def pending(self, domain: str, owned: Iterable[Any] | None = None) -> list[Timer]:
        """Timers of some keys in the order in which they fire."""
        timers = self.timers[domain] if owned is None else [t for t in self.timers[domain] if t[1] in owned]
        return sorted(timers, key=lambda timer: (timer[0], stable_hash(timer[1]), timer[2] is not None, timer[2] or ()))

    def _places(self) -> Iterator[tuple[str, Any]]:
        return ((kind, name) for kind in KINDS for name in self.namespaces())

    # --- writing

    def put(self, kind: str, cell: Cell, value: Any) -> None:
        """Set what a state other than a map or a list holds; None is nothing."""
        self._cell(cell)[kind] = value
        self._touched[kind].add(cell)

    def replace_list(self, cell: Cell, items: list[Any]) -> None:
        self._cell(cell)["list"] = list(items)
        self._touched["list"].add(cell)
        self._replaced.add(("list", cell))

    def append(self, cell: Cell, items: list[Any]) -> None:
        if items:
            self._cell(cell)["list"] = [*self._cell(cell)["list"], *items]
            self._touched["list"].add(cell)
            self._appended.setdefault(cell, []).extend(items)

    def put_entries(self, cell: Cell, entries: dict[Any, Any]) -> None:
        self._cell(cell)["map"].update(entries)
        self._touched["map"].update((*cell, user_key) for user_key in entries)

    def remove_entry(self, cell: Cell, user_key: Any) -> None:
        self._cell(cell)["map"].pop(user_key, None)
        self._touched["map"].add((*cell, user_key))

    def clear(self, kind: str, cell: Cell) -> None:
        self._cell(cell)[kind] = copy.deepcopy(NOTHING[kind])
        self._replaced.add((kind, cell))
        if kind != "map":
            self._touched[kind].add(cell)

    def register(self, domain: str, timer: Timer) -> None:
        self.timers[domain].add(timer)
        self._touched[TIMER_STATES[domain]].add(timer)

    def delete(self, domain: str, timer: Timer) -> None:
        self.timers[domain].discard(timer)
        self._touched[TIMER_STATES[domain]].add(timer)

    def _cell(self, cell: Cell) -> dict[str, Any]:
        return self.cells.setdefault(cell, copy.deepcopy(NOTHING))

    # --- deltas

    def check_delta(self, sections: list[Section]) -> None:
        """A delta holds what the epoch touched and no more, each thing once; of a list that grew, what was added."""
        for section in sections:
            rows = read_rows(section)
            count = len(rows.keys)
            assert count, f"an empty section of {section.state}"
            names = rows.namespaces or [None] * count
            cells: list[Any] = list(zip(rows.keys, names, strict=True))
            ops = rows.ops or [0] * count
            if section.kind == "map":
                self._check_map_rows(cells, ops, rows.user_keys)
                continue
            if section.kind == "timer":
                cells = [(time, *cell) for time, cell in zip(rows.values, cells, strict=True)]
            assert len(set(cells)) == count, f"{section.state} writes an entry twice: {cells}"
            extra = set(cells) - self._touched[section.state]
            assert not extra, f"{section.state} writes what nobody touched: {extra}"
            if section.kind == "list":
                for cell, op, items in zip(cells, ops, rows.values, strict=True):
                    if ("list", cell) not in self._replaced:
                        assert (op, list(items)) == (APPEND, self._appended[cell]), f"more than was added to {cell}"

    def _check_map_rows(self, cells: list[Cell], ops: list[int], user_keys: list[Any]) -> None:
        written = set()
        for cell, op, user_key in zip(cells, ops, user_keys, strict=True):
            if op == CLEAR:
                assert ("map", cell) in self._replaced, f"map {cell} was not cleared"
            else:
                entry = (*cell, user_key)
                assert entry in self._touched["map"], f"map entry {entry} was not touched"
                assert entry not in written, f"map entry {entry} is written twice"
                written.add(entry)
