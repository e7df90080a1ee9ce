"""The records of one side of an interval join that may still have partners."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.state import MapStateDescriptor
from tidemill.runtime.batch.emitted import emitted
from tidemill.runtime.batch.records import MAX_TIME
from tidemill.state.keyed.backend import KeyedStateBackend, immutable_type

#: The maximum number of timestamps kept from one epoch to the next if the state itself is not in memory: about 64 MB.
_REMEMBERED: Final = 1_000_000


class _Times:
    """The timestamps of a key's records, in order, and the lists that were added to the state in this epoch."""

    __slots__ = ("fresh", "times")

    def __init__(self, times: list[int]) -> None:
        self.times = times
        self.fresh: dict[int, list[Any]] = {}


class JoinBuffer:
    """Records by key and timestamp: a map state from timestamps to lists of records, in order of arrival.

    A record is kept until the watermark is ``keep`` ms past its timestamp. There is one timer per key, for its earliest
    record. When it fires, all records that are due are removed, and the next timer is registered.

    The timestamps of a key are also in memory, sorted, so that only the required entries are read. They are read from
    the state when the key first occurs, and remain valid as long as this instance continues from its own epochs.
    """

    def __init__(
        self, backend: KeyedStateBackend, state: str, timers: str, record_type: TypeInformation | None, keep: int
    ) -> None:
        # configuration
        self._keep = keep
        self._namespace = timers
        self._context = backend.context
        self._in_memory = backend.in_memory
        self._timers = backend.event_timers
        #: Copies a record for the user function; None if records are immutable.
        self.hand_out: Callable[[Any], Any] | None = (
            None if record_type is not None and immutable_type(record_type) else emitted
        )
        # transient
        self._by_key: dict[Any, _Times] = {}
        self._remembered = 0
        self._changed: list[_Times] = []
        #: Keys that have no records in the state.
        self._without: set[Any] = set()
        # checkpointed
        self._state = backend.map_state(MapStateDescriptor(state, Types.LONG(), Types.LIST(record_type or _ANY)))
        self._state.keep_unshared()

    def begin_epoch(self) -> None:
        """Begin an epoch. Lists of earlier epochs are committed state now, and must not be changed in place."""
        for entry in self._changed:
            entry.fresh = {}
        self._changed.clear()
        self._without.clear()
        if not self._in_memory and self._remembered > _REMEMBERED:
            self.forget()

    def add(self, timestamp: int, value: Any) -> None:
        """Add a record of the current key."""
        entry = self._by_key.get(self._context.key) or self._met()
        fresh = entry.fresh
        records = fresh.get(timestamp)
        if records is not None:
            records.append(value)
            return
        times = entry.times
        if not times or timestamp > times[-1]:
            times.append(timestamp)
            self._remembered += 1
            records = [value]
            if len(times) == 1:
                self._set_timer(timestamp)
        else:
            place = bisect_left(times, timestamp)
            if times[place] == timestamp:
                records = [*self._state.get(timestamp), value]
            else:
                times.insert(place, timestamp)
                self._remembered += 1
                records = [value]
                if place == 0:
                    self._set_timer(timestamp)
        if not fresh:
            self._changed.append(entry)
        fresh[timestamp] = records
        self._state.put(timestamp, records)

    def between(self, lowest: int, highest: int) -> Iterable[tuple[int, list[Any]]]:
        """Return the records of the current key with timestamps in a range, both ends included, in order."""
        entry = self._by_key.get(self._context.key)
        if entry is None:
            if self._context.key in self._without:
                return ()
            if self._state.is_empty():
                self._without.add(self._context.key)
                return ()
            entry = self._met()
        times = entry.times
        if lowest > times[-1] or highest < times[0]:
            return ()
        fresh, read = entry.fresh, self._state.get
        return [
            (timestamp, fresh.get(timestamp) or read(timestamp))
            for timestamp in times[bisect_left(times, lowest) : bisect_right(times, highest)]
        ]

    def expire(self, watermark: int) -> None:
        """Handle a timer of the current key: remove the records that are due, and register the next timer."""
        entry = self._by_key.get(self._context.key) or self._met()
        times = entry.times
        due = len(times) if watermark == MAX_TIME else bisect_right(times, watermark - self._keep)
        for timestamp in times[:due]:
            self._state.remove(timestamp)
            entry.fresh.pop(timestamp, None)
        del times[:due]
        self._remembered -= due
        if times:
            self._set_timer(times[0])
        else:
            del self._by_key[self._context.key]

    def forget(self) -> None:
        """Discard the timestamps in memory."""
        self._by_key.clear()
        self._changed.clear()
        self._without.clear()
        self._remembered = 0

    def _met(self) -> _Times:
        key = self._context.key
        known_empty = key in self._without or self._state.is_empty()
        entry = self._by_key[key] = _Times([] if known_empty else sorted(self._state.keys()))
        self._remembered += len(entry.times)
        return entry

    def _set_timer(self, timestamp: int) -> None:
        self._timers.register(min(timestamp + self._keep, MAX_TIME), self._context.key, self._namespace)


_ANY: Final = Types.PICKLED_BYTE_ARRAY()
