"""Selects the row groups of materialized input that an epoch reads: part by part, or all parts by event time.

A bounded DataFrame becomes one part for each of its partitions. A part is a file or, in an object store, several files.
It is not known how parts are related in time: they may cover the same hours, or each of them a different day. Without
event time they are read one after the other. With event time, each part is a partition of the source, and the slowest
part determines the time of the source (:class:`~tidemill.connectors.sources.ClockOf`). To keep the parts close
together, the row group that begins earliest is read next. A part that has not been started holds the watermark back at
the time of its first row.

An epoch reads whole row groups, unless the next row group alone has more rows than the epoch may have. Then it is read
in slices, each of them by all subtasks. The row group is decoded again for every slice, which takes some milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from tidemill.connectors.ranges import cut_range
from tidemill.connectors.sources import Position, Split, SplitEnumerator
from tidemill.runtime.batch.records import MIN_TIME

#: The partition that represents all parts that have not been started yet.
UNREAD: Final = "unread"


@dataclass(frozen=True)
class RowGroup:
    """One row group of a file of ``size`` bytes, which belongs to a partition of the source.

    It may be a slice of the row group: ``rows`` rows, beginning with row ``start``.
    """

    file: str
    index: int
    rows: int
    partition: str
    size: int
    start: int = 0

    def slice(self, start: int, rows: int) -> RowGroup:
        """Return a slice of ``rows`` rows, beginning ``start`` rows after the first one."""
        return replace(self, start=self.start + start, rows=rows)


class Beginning(NamedTuple):
    """How a row group begins: the event time of its first row, and the watermark after it."""

    timestamp: int = MIN_TIME
    watermark: int = MIN_TIME


class RowGroups(SplitEnumerator):
    """Enumerates the row groups of several parts.

    ``beginning`` returns how a row group begins; without it, parts are read one after the other. It is called once for
    each row group, when all previous row groups of its part have been assigned.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[RowGroup]],
        position: Position | None,
        beginning: Callable[[RowGroup], Beginning] | None,
    ) -> None:
        # configuration
        self._parts = parts
        self._numbers = {part[0].partition: number for number, part in enumerate(parts)}
        self._beginning = beginning
        # checkpointed: the number of assigned row groups of each part, and of assigned rows in its next row group
        groups, rows = (position["groups"], position["rows"]) if isinstance(position, dict) else (position, [])
        self._read = _counts(parts, groups)
        self._rows = [int(count) for count in rows] or [0] * len(parts)
        # transient
        self._known: dict[RowGroup, Beginning] = {}

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split | Sequence[Split]]:
        begun = self._begun()
        chosen = self._choose(max_records)
        if len(chosen) == 1 and (chosen[0].start or self._rows[self._numbers[chosen[0].partition]]):
            chosen = _cut(chosen[0], parallelism)
        shares = balanced(chosen, parallelism)
        if self._beginning is None:
            return [Split(share, sum(group.rows for group in share)) for share in shares]
        dealt = [
            [self._split(list(run)) for _, run in groupby(share, lambda group: group.partition)] for share in shares
        ]
        if dealt and not all(begun):
            dealt[0].append(self._unread())
        return dealt

    def position(self) -> Position:
        """The number of assigned row groups: the total if parts were read one after the other, else one per part.

        If a row group is partly read, the position also has the number of assigned rows in the next row group of each
        part.
        """
        if any(self._rows):
            return {"groups": list(self._read), "rows": list(self._rows)}
        total = sum(self._read)
        return total if _counts(self._parts, total) == self._read else list(self._read)

    @property
    def finished(self) -> bool:
        return all(read == len(part) for part, read in zip(self._parts, self._read, strict=True))

    def _choose(self, max_records: int) -> list[RowGroup]:
        """Return the next row groups in the order of parts, or a slice of one. Empty only if no row groups are left."""
        left = [
            group
            for number, (part, read) in enumerate(zip(self._parts, self._read, strict=True))
            for group in (self._next(number), *part[read + 1 :])
            if read < len(part)
        ]
        if sum(group.rows for group in left) <= max_records:
            self._read = [len(part) for part in self._parts]
            self._rows = [0] * len(self._parts)
            return left
        chosen: list[RowGroup] = []
        records = 0
        turns = [self._turn(number) for number, part in enumerate(self._parts) if self._read[number] < len(part)]
        heapq.heapify(turns)
        while turns:
            number = turns[0][-1]
            group = self._next(number)
            if records + group.rows > max_records:
                if not chosen:
                    chosen.append(group.slice(0, max(1, max_records)))
                    self._rows[number] += chosen[0].rows
                break
            chosen.append(group)
            records += group.rows
            self._read[number] += 1
            self._rows[number] = 0
            if self._read[number] < len(self._parts[number]):
                heapq.heapreplace(turns, self._turn(number))
            else:
                heapq.heappop(turns)
        return sorted(chosen, key=lambda group: self._numbers[group.partition])

    def _next(self, number: int) -> RowGroup:
        """Return the rest of the next row group of a part, or the last row group of a part that has been read."""
        group = self._parts[number][min(self._read[number], len(self._parts[number]) - 1)]
        return group.slice(self._rows[number], group.rows - self._rows[number])

    def _begun(self) -> list[bool]:
        """For each part, whether any of its rows were assigned."""
        return [bool(read or rows) for read, rows in zip(self._read, self._rows, strict=True)]

    def _turn(self, number: int) -> tuple[int, int, int]:
        """Return a sort key: the part whose next row group begins earliest is first. Unknown ones are read in turn."""
        if self._beginning is None:
            return 0, 0, number
        return self._begins(number).timestamp, self._read[number], number

    def _begins(self, number: int) -> Beginning:
        group = self._parts[number][self._read[number]]
        found = self._known.get(group)
        if found is None and self._beginning is not None:
            found = self._known[group] = self._beginning(group)
        return found or Beginning()

    def _split(self, groups: list[RowGroup]) -> Split:
        rows = sum(group.rows for group in groups)
        number = self._numbers[groups[0].partition]
        last = self._read[number] == len(self._parts[number])
        return Split(groups, rows, groups[0].partition, last=last)

    def _unread(self) -> Split:
        """Return a split without records, with the watermark of the parts that have not been started yet."""
        unread = [number for number, begun in enumerate(self._begun()) if not begun]
        watermark = min((self._begins(number).watermark for number in unread), default=None)
        return Split([], 0, UNREAD, last=not unread, watermark=watermark)


def _cut(group: RowGroup, pieces: int) -> list[RowGroup]:
    """Cut a row group into non-empty slices of nearly equal length."""
    return [group.slice(low, high - low) for low, high in cut_range(0, group.rows, pieces)]


def _counts(parts: Sequence[Sequence[RowGroup]], position: Position | None) -> list[int]:
    """Return the number of assigned row groups of each part."""
    if isinstance(position, list):
        return [int(read) for read in position]
    left = 0 if position is None else int(position)
    counts = []
    for part in parts:
        counts.append(min(left, len(part)))
        left -= counts[-1]
    return counts


def balanced(groups: Sequence[RowGroup], shares: int) -> list[list[RowGroup]]:
    """Divide row groups into up to ``shares`` lists with nearly equal numbers of rows, keeping their order."""
    total = sum(group.rows for group in groups)
    lists: list[list[RowGroup]] = []
    done = 0
    for group in groups:
        share = min(shares - 1, done * shares // max(1, total))
        while len(lists) <= share:
            lists.append([])
        lists[share].append(group)
        done += group.rows
    return [share for share in lists if share]
