"""Timers in a store, in firing order: by time, then by the key's stable hash, then by namespace.

Committed timers are read ahead a few at a time and stay in the store; those that the epoch touched are in memory.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Any

from rocksdict import WriteBatch

from tidemill.state.files.rows import DELETE, PUT, Rows
from tidemill.state.keyed.timers import Timer, changed_timers, timer_rows, timers_of
from tidemill.state.keys.stable_hash import stable_hash
from tidemill.state.rocksdb.key_encoding import decode_key, encode_key
from tidemill.state.rocksdb.rows import original_of, remember_original
from tidemill.state.rocksdb.store import Store, end_of

_Entry = tuple[bytes, Timer]


class StoredTimers:
    """Pending timers of one time domain, with the interface of :class:`~tidemill.state.keyed.timers.TimerQueue`.

    ``_changes`` maps each timer that the epoch touched to whether it was pending in the committed state. Those that are
    pending now are in ``_live`` and in the heap, which may also contain some that no longer are.
    """

    def __init__(self, name: str, store: Store, read_ahead: int) -> None:
        # configuration
        self._store = store
        self._prefix = store.prefix(name)
        self._end = end_of(self._prefix)
        self._read_ahead = read_ahead
        # transient
        self._changes: dict[Timer, bool] = {}
        self._live: set[Timer] = set()
        self._heap: list[tuple[bytes, int, Timer]] = []
        self._counter = 0
        #: Committed timers that were looked up and found.
        self._seen: set[Timer] = set()
        #: There are no committed timers before this row: timers that fired left tombstones there, which are slow to
        #: skip.
        self._floor = self._prefix
        self._ahead: deque[_Entry] = deque()
        self._next: bytes | None = self._prefix

    def __len__(self) -> int:
        return sum(1 for _ in self.pending())

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._live if timer in self._changes else self._committed(timer)

    def register(self, time: int, key: Any, namespace: Any = None) -> None:
        """Add a timer; registering the same timer again has no effect."""
        timer = (time, key, namespace)
        if timer not in self:
            self._changes.setdefault(timer, False)
            self._live.add(timer)
            self._counter += 1
            heapq.heappush(self._heap, (self._row(timer), self._counter, timer))

    def delete(self, time: int, key: Any, namespace: Any = None) -> None:
        """Remove a timer, if it is pending."""
        timer = (time, key, namespace)
        if timer in self:
            self._gone(timer)

    def pop_due(self, time: int) -> Timer | None:
        """Remove and return the earliest timer at or before ``time``; None if there is none."""
        timer = self._earliest()
        if timer is None or timer[0] > time:
            return None
        self._gone(timer)
        return timer

    def peek(self) -> int | None:
        """The time of the earliest pending timer."""
        timer = self._earliest()
        return None if timer is None else timer[0]

    def pending(self) -> Iterator[Timer]:
        """All pending timers, in the order in which they would fire."""
        touched = sorted((self._row(timer), number, timer) for number, timer in enumerate(self._live))
        committed = (
            (row, 0, timer)
            for row, data in self._store.scan(self._floor, self._end)
            if (timer := self._timer(row, data)) not in self._changes
        )
        for _, _, timer in heapq.merge(committed, touched, key=lambda entry: entry[0]):
            yield timer

    def export_delta(self) -> Rows | None:
        """The changes of the epoch: added and removed timers."""
        return changed_timers(self._changes, self._live)

    def export_all(self) -> Rows | None:
        """All pending timers."""
        return timer_rows((timer, PUT) for timer in self.pending())

    def fold(self) -> None:
        """Make the epoch's changes part of the committed state."""
        with self._store.joining() as batch:
            for timer, before in self._changes.items():
                after = timer in self._live
                if before != after:
                    self._write(batch, timer, pending=after)
        self._floor = min([self._position(), *map(self._row, self._live)])
        self._forget()

    def discard(self) -> None:
        """Restore the committed timers."""
        self._forget()

    def entries(self) -> int:
        """The number of committed timers."""
        return sum(1 for _ in self._store.scan(self._floor, self._end))

    def load(self, rows: Rows) -> None:
        """Apply rows of a delta or snapshot to the committed timers."""
        with self._store.writing(None) as batch:
            for timer, op in timers_of(rows):
                self._write(batch, timer, pending=op != DELETE)
        self._floor = self._prefix
        self._forget()

    def _write(self, batch: WriteBatch, timer: Timer, *, pending: bool) -> None:
        if pending:
            batch.put(self._row(timer), remember_original(b"\0", timer[1], timer[2]))
        else:
            batch.delete(self._row(timer))

    def _forget(self) -> None:
        """Clear the timers that were touched or read ahead."""
        self._changes.clear()
        self._live.clear()
        self._heap.clear()
        self._seen.clear()
        self._ahead.clear()
        self._next = self._floor

    def _gone(self, timer: Timer) -> None:
        if timer in self._live:
            self._live.remove(timer)
        else:
            self._changes[timer] = True

    def _committed(self, timer: Timer) -> bool:
        if timer in self._seen:
            return True
        found = self._store.get(self._row(timer)) is not None
        if found:
            self._seen.add(timer)
        return found

    def _earliest(self) -> Timer | None:
        heap = self._heap
        while heap and heap[0][2] not in self._live:
            heapq.heappop(heap)
        committed = self._first_committed()
        if heap and (committed is None or heap[0][0] < committed[0]):
            return heap[0][2]
        return None if committed is None else committed[1]

    def _first_committed(self) -> _Entry | None:
        """The earliest committed timer that the epoch has not touched."""
        ahead = self._ahead
        while True:
            while ahead and ahead[0][1] in self._changes:
                ahead.popleft()
            if ahead or self._next is None:
                return ahead[0] if ahead else None
            rows = self._store.first(self._next, self._end, self._read_ahead)
            self._next = rows[-1][0] + b"\0" if len(rows) == self._read_ahead else None
            ahead.extend((row, self._timer(row, data)) for row, data in rows)

    def _position(self) -> bytes:
        """The row before which there is no committed timer that the epoch has not touched."""
        if self._ahead:
            return self._ahead[0][0]
        return self._end if self._next is None else self._next

    def _row(self, timer: Timer) -> bytes:
        time, key, namespace = timer
        order = encode_key(time) + stable_hash(key).to_bytes(8, "big")
        return self._prefix + order + encode_key(namespace) + encode_key(key)

    def _timer(self, row: bytes, data: bytes) -> Timer:
        time, at = decode_key(row, len(self._prefix))
        if data[0] & 1 and (original := original_of(data)) is not None:
            return time, original[0], original[1]
        namespace, at = decode_key(row, at + 8)
        return time, decode_key(row, at)[0], namespace
