"""The clock of a source whose input is reassigned to tasks in each epoch, as a receiver of its records computes it."""

from __future__ import annotations

import heapq
from collections import Counter

from tidemill.runtime.batch.records import MIN_TIME
from tidemill.runtime.time.strands import Opening, PartitionEnd

#: The number of the sending task, and that of the strand.
_Key = tuple[int, int]


class SourceClock:
    """The time of all tasks that read a source, from their strands (:mod:`tidemill.runtime.time.strands`).

    1. All strands are known before the first record of any strand, so that no strand makes another's records late.
    2. The time of a partition is that of its slowest strand that is not read to its end. When all its strands are read,
       it is the time that the partition has reached: the greatest that any task reports. A source that does not name
       partitions has a single one.
    3. The time of the source is that of its slowest partition that is not idle, whether or not the partition is read in
       this epoch.
    4. If all partitions are idle, the source does not wait for any: its time advances to the greatest of all times.
    5. A partition that was idle may be behind when it becomes active: time does not advance until it has caught up.
    """

    def __init__(self) -> None:
        self._partition: dict[_Key, str | None] = {}
        self._left: dict[_Key, int] = {}
        self._times: dict[_Key, int] = {}
        #: A heap by time. An entry whose strand has advanced since then is ignored.
        self._slowest: list[tuple[int, _Key]] = []
        self._unread: Counter[str | None] = Counter()
        self._ends: dict[str | None, PartitionEnd] = {}
        self._furthest = MIN_TIME
        #: Whether any task has announced its strands; otherwise the source has no time.
        self.begun = False
        self._start = MIN_TIME
        #: The time of the slowest partition that is read to its end.
        self._held: int | None = None

    def open(self, sender: int, opening: Opening, watermark: int) -> None:
        """Register the strands of a task, and the time of the source at the start of the epoch."""
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
        """Begin reading: all tasks have announced their strands."""
        if len(self._ends) > 1:
            self._ends.pop(None, None)  # the placeholder for partitions that were not known yet
        for partition in self._ends:
            if not self._unread[partition]:
                self._hold(partition)

    def advance(self, sender: int, strand: int, watermark: int) -> None:
        """Advance the time of a strand."""
        key = sender, strand
        if watermark > self._times.get(key, watermark):
            self._times[key] = watermark
            heapq.heappush(self._slowest, (watermark, key))

    def parcel_read(self, sender: int, strand: int) -> None:
        """Record that one more parcel of a strand has been read."""
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
        """The time of the source. It is never before the start of the epoch, even if a formerly idle partition is."""
        slowest = self._slowest
        while slowest and self._times.get(slowest[0][1]) != slowest[0][0]:
            heapq.heappop(slowest)
        times = [slowest[0][0]] if slowest else []
        if self._held is not None:
            times.append(self._held)
        return max(self._start, min(times, default=self._furthest))

    @property
    def idle(self) -> bool:
        """Whether there is no partition to wait for."""
        return not self._times and self._held is None

    def _hold(self, partition: str | None) -> None:
        """Fix the time of a partition that has been read to its end."""
        end = self._ends.get(partition)
        if end is not None:
            self._furthest = max(self._furthest, end.watermark)
            if not end.idle:
                self._held = end.watermark if self._held is None else min(self._held, end.watermark)
