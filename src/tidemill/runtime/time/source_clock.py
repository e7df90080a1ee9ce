"""The clock of a source whose input is dealt out anew in each epoch, as one receiver of its records knows it."""

from __future__ import annotations

import heapq
from collections import Counter

from tidemill.runtime.batch.records import MIN_TIME
from tidemill.runtime.time.strands import Opening, PartitionEnd

#: The number of the sending task, and that of the strand.
_Key = tuple[int, int]


class SourceClock:
    """The time of all tasks that read a source, from their strands (:mod:`tidemill.runtime.time.strands`).

    1. What tasks tell of their strands is known before the first record of any: no strand makes another's records late.
    2. The time of a partition is that of its slowest strand which is not read to its end; then it is what the partition
       has come to: the furthest that any task knows. A source that names no partitions is a single one.
    3. The time of the source is that of its slowest partition, read in this epoch or not, but of no idle one.
    4. If all are idle nobody is waited for: it goes to the greatest of all times.
    5. A partition that was idle may be behind when it comes back: time stands until it has caught up.
    """

    def __init__(self) -> None:
        self._partition: dict[_Key, str | None] = {}
        self._left: dict[_Key, int] = {}
        self._times: dict[_Key, int] = {}
        #: By time; an entry whose strand is elsewhere by now does not count.
        self._slowest: list[tuple[int, _Key]] = []
        self._unread: Counter[str | None] = Counter()
        self._ends: dict[str | None, PartitionEnd] = {}
        self._furthest = MIN_TIME
        #: Whether any task has told something; else the source has no time.
        self.begun = False
        self._start = MIN_TIME
        #: The time of the slowest partition that is read to its end.
        self._held: int | None = None

    def open(self, sender: int, opening: Opening, watermark: int) -> None:
        """A task tells of its strands, and of the time of the source when the epoch began."""
        self.begun = True
        self._start = max(self._start, watermark)
        for number, partition, parcels, start in opening.strands:
            if parcels:
                key = sender, number
                self._partition[key] = partition
                self._left[key] = parcels
                self._times[key] = start
                self._unread[partition] += 1
                heapq.heappush(self._slowest, (start, key))
        for end in opening.ends:
            known = self._ends.get(end.partition, end)
            self._ends[end.partition] = PartitionEnd(
                end.partition, max(known.watermark, end.watermark), known.idle and end.idle
            )

    def begin(self) -> None:
        """All tasks have told what they have to."""
        if len(self._ends) > 1:
            self._ends.pop(None, None)  # it stood for partitions that were not known yet
        for partition in self._ends:
            if not self._unread[partition]:
                self._hold(partition)

    def advance(self, sender: int, strand: int, watermark: int) -> None:
        """Time in a strand has moved on."""
        key = sender, strand
        if watermark > self._times.get(key, watermark):
            self._times[key] = watermark
            heapq.heappush(self._slowest, (watermark, key))

    def parcel_read(self, sender: int, strand: int) -> None:
        """One more parcel of a strand has been read."""
        key = sender, strand
        if key not in self._left:
            return
        self._left[key] -= 1
        if self._left[key]:
            return
        del self._left[key]
        self._furthest = max(self._furthest, self._times.pop(key))
        partition = self._partition[key]
        self._unread[partition] -= 1
        if not self._unread[partition]:
            self._hold(partition)

    @property
    def time(self) -> int:
        """How far time has come: never back behind where the epoch began, though a partition that was idle may be."""
        slowest = self._slowest
        while slowest and self._times.get(slowest[0][1]) != slowest[0][0]:
            heapq.heappop(slowest)
        times = [slowest[0][0]] if slowest else []
        if self._held is not None:
            times.append(self._held)
        return max(self._start, min(times, default=self._furthest))

    @property
    def idle(self) -> bool:
        """Whether nobody is to be waited for."""
        return not self._times and self._held is None

    def _hold(self, partition: str | None) -> None:
        """A partition is read to its end: from now on it has the time it has come to."""
        end = self._ends.get(partition)
        if end is not None:
            self._furthest = max(self._furthest, end.watermark)
            if not end.idle:
                self._held = end.watermark if self._held is None else min(self._held, end.watermark)
