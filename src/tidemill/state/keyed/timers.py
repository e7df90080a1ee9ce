"""Timers as state: one per (time, key, namespace), fired in the order of their times.

Ties are broken by the key's stable hash and then by the namespace, never by the order of registration: a restored queue
fires in the same order as the original one.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from tidemill.state.files.rows import DELETE, PUT, Rows
from tidemill.state.files.section_kinds import TIMER
from tidemill.state.keys.stable_hash import stable_hash

Timer = tuple[int, Any, Any]  # time, key, namespace
_HeapEntry = tuple[int, int, int, Any, int, Any, Any]

#: A heap with this many stale entries is not worth compacting.
_FEW: Final = 64


class Timers(Protocol):
    """The pending timers of one time domain; interface and order are those of :class:`TimerQueue`."""

    def __len__(self) -> int: ...
    def __contains__(self, timer: Timer) -> bool: ...
    def register(self, time: int, key: Any, namespace: Any = None) -> None: ...
    def delete(self, time: int, key: Any, namespace: Any = None) -> None: ...
    def pop_due(self, time: int) -> Timer | None: ...
    def peek(self) -> int | None: ...
    def pending(self) -> Iterator[Timer]: ...
    def export_delta(self) -> Rows | None: ...
    def export_all(self) -> Rows | None: ...
    def fold(self) -> None: ...
    def discard(self) -> None: ...
    def entries(self) -> int: ...
    def load(self, rows: Rows) -> None: ...


class TimerQueue:
    """Pending timers of one time domain, in memory.

    ``_live`` is authoritative; the heap may contain entries that are no longer live, which are skipped. ``_changes``
    maps each timer that the epoch touched to whether it was pending in the committed state. It is used for both the
    delta and the rollback.
    """

    section_kind: Final = TIMER

    def __init__(self) -> None:
        # transient
        self._heap: list[_HeapEntry] = []
        self._counter = 0
        self._changes: dict[Timer, bool] = {}
        # checkpointed
        self._live: set[Timer] = set()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._live

    def register(self, time: int, key: Any, namespace: Any = None) -> None:
        """Add a timer; registering the same timer again has no effect."""
        timer = (time, key, namespace)
        if timer not in self._live:
            self._changes.setdefault(timer, False)
            self._live.add(timer)
            self._push(timer)

    def delete(self, time: int, key: Any, namespace: Any = None) -> None:
        """Remove a timer, if it is pending."""
        timer = (time, key, namespace)
        if timer in self._live:
            self._live.remove(timer)
            self._changes.setdefault(timer, True)

    def pop_due(self, time: int) -> Timer | None:
        """Remove and return the earliest timer at or before ``time``; None if there is none."""
        earliest = self.peek()
        if earliest is None or earliest > time:
            return None
        entry = heapq.heappop(self._heap)
        timer = (entry[0], entry[5], entry[6])
        self._live.remove(timer)
        self._changes.setdefault(timer, True)
        return timer

    def peek(self) -> int | None:
        """The time of the earliest pending timer."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if (entry[0], entry[5], entry[6]) in self._live:
                return entry[0]
            heapq.heappop(heap)
        return None

    def pending(self) -> Iterator[Timer]:
        """All pending timers, in the order in which they would fire."""
        seen: set[Timer] = set()
        for entry in sorted(self._heap):
            timer = (entry[0], entry[5], entry[6])
            if timer in self._live and timer not in seen:
                seen.add(timer)
                yield timer

    def export_delta(self) -> Rows | None:
        """The changes of the epoch: added and removed timers."""
        return changed_timers(self._changes, self._live)

    def export_all(self) -> Rows | None:
        """All pending timers."""
        return timer_rows((timer, PUT) for timer in self.pending())

    def fold(self) -> None:
        """Make the epoch's changes part of the committed state."""
        self._changes.clear()
        self._shed()

    def discard(self) -> None:
        """Restore the committed timers."""
        for timer, before in self._changes.items():
            if before and timer not in self._live:
                self._live.add(timer)
                self._push(timer)
            elif not before:
                self._live.discard(timer)
        self._changes.clear()

    def entries(self) -> int:
        """Number of pending timers."""
        return len(self._live)

    def load(self, rows: Rows) -> None:
        """Apply rows of a delta or snapshot to the committed timers."""
        for timer, op in timers_of(rows):
            if op == DELETE:
                self._live.discard(timer)
            elif timer not in self._live:
                self._live.add(timer)
                self._push(timer)

    @classmethod
    def merged(cls, parts: Iterable[Rows], *, keep_deletes: bool) -> Rows | None:
        """The latest operation on each timer over several deltas, oldest first; tombstones only if ``keep_deletes``."""
        last: dict[Timer, int] = {}
        for rows in parts:
            for timer, op in timers_of(rows):
                last.pop(timer, None)
                last[timer] = op
        return timer_rows((timer, op) for timer, op in last.items() if keep_deletes or op == PUT)

    def _push(self, timer: Timer) -> None:
        time, key, namespace = timer
        # Namespaces are None or windows, which compare by (start, end); a counter breaks remaining ties.
        rank = 0 if namespace is None else 1
        self._counter += 1
        heapq.heappush(self._heap, (time, stable_hash(key), rank, namespace or 0, self._counter, key, namespace))

    def _shed(self) -> None:
        """Compact the heap, so that deleted timers do not stay in it until their time is reached."""
        if len(self._heap) > 2 * len(self._live) + _FEW:
            kept = {timer: entry for entry in self._heap if (timer := (entry[0], entry[5], entry[6])) in self._live}
            self._heap = list(kept.values())
            heapq.heapify(self._heap)


def timer_rows(timers: Iterable[tuple[Timer, int]]) -> Rows | None:
    """Timers, each with its operation, as rows; None if there are none."""
    rows = Rows()
    for (time, key, namespace), op in timers:
        rows.values.append(time)
        rows.keys.append(key)
        rows.namespaces.append(namespace)
        rows.ops.append(op)
    return rows if rows.keys else None


def timers_of(rows: Rows) -> Iterator[tuple[Timer, int]]:
    """The timers and operations of rows from :func:`timer_rows`."""
    count = len(rows.keys)
    timers = zip(rows.values, rows.keys, rows.namespaces or [None] * count, strict=True)
    return zip(timers, rows.ops or [PUT] * count, strict=True)


def changed_timers(changes: Mapping[Timer, bool], live: Collection[Timer]) -> Rows | None:
    """The changes of an epoch: ``changes`` is whether each touched timer was pending before, ``live`` are pending."""
    return timer_rows(
        (timer, PUT if after else DELETE) for timer, before in changes.items() if before != (after := timer in live)
    )
