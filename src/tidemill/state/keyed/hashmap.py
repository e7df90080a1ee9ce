"""The ``hashmap`` backend: committed state as live Python objects in the worker's memory."""

from __future__ import annotations

from typing import Final, cast

from tidemill.state.files.sections import StateShape
from tidemill.state.keyed.backend import KeyedStateBackend, StateVersion
from tidemill.state.keyed.kinds import tables_of
from tidemill.state.keyed.tables import Table
from tidemill.state.keyed.timers import TimerQueue, Timers

#: The assumed size of a state entry for memory budgets: a dict slot, a key and a small value.
ENTRY_BYTES: Final = 200


class HashMapBackend(KeyedStateBackend):
    """Keyed state in memory."""

    in_memory = True

    def fold(self, version: StateVersion | None = None) -> None:
        super().fold(version)
        self._group_of.trim(self.entries())

    def _new_table(self, name: str, shape: StateShape) -> Table:
        return cast("Table", tables_of(shape.kind).memory())

    def _new_timers(self, name: str) -> Timers:
        return TimerQueue()

    def memory(self) -> int:
        return self.entries() * ENTRY_BYTES
