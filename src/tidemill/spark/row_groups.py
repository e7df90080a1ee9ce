"""Which row groups of materialised input an epoch reads: part by part, or all parts side by side as event time goes on.

A bounded DataFrame becomes one part for each of its partitions, which is a file or, in an object store, several. Nobody
knows how these are related in time: they may be of the same hours, or each of another day. Without event time they are
read one after the other. With it each part is a partition of the source, whose time is that of the slowest part
(:class:`~tidemill.datastream.sources.ClockOf`); so that the others need not wait long, the row group that begins
earliest is read next. A part that was not begun yet holds time back at what its first row says.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from tidemill.datastream.sources import Position, Split, SplitEnumerator
from tidemill.runtime.records import MIN_TIME

#: The partition that stands for all parts that were not begun yet.
UNREAD: Final = "unread"


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file of so many bytes, which is of a partition of the source."""

    file: str
    index: int
    rows: int
    partition: str
    size: int


class Beginning(NamedTuple):
    """How a row group begins: the event time of its first row, and the watermark after it."""

    timestamp: int = MIN_TIME
    watermark: int = MIN_TIME


class RowGroups(SplitEnumerator):
    """Hands out the row groups of several parts.

    ``beginning`` tells how a row group begins; without it, parts are read one after the other. It is asked once for
    each row group, when all before it in its part have been handed out.
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
        # checkpointed
        self._read = _counts(parts, position)
        # transient
        self._known: dict[RowGroup, Beginning] = {}

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split | Sequence[Split]]:
        before = list(self._read)
        chosen = self._choose(max_records)
        shares = balanced(chosen, parallelism)
        if self._beginning is None:
            return [Split(share, sum(group.rows for group in share)) for share in shares]
        dealt = [
            [self._split(list(run)) for _, run in groupby(share, lambda group: group.partition)] for share in shares
        ]
        if dealt and 0 in before:
            dealt[0].append(self._unread())
        return dealt

    def position(self) -> Position:
        """The number of row groups that were handed out: of all parts, if these are the first ones, or of each."""
        total = sum(self._read)
        return total if _counts(self._parts, total) == self._read else list(self._read)

    @property
    def finished(self) -> bool:
        return all(read == len(part) for part, read in zip(self._parts, self._read, strict=True))

    def _choose(self, max_records: int) -> list[RowGroup]:
        """The next row groups, at least one if there is any, in the order of parts."""
        left = [group for part, read in zip(self._parts, self._read, strict=True) for group in part[read:]]
        if sum(group.rows for group in left) <= max_records:
            self._read = [len(part) for part in self._parts]
            return left
        chosen: list[RowGroup] = []
        records = 0
        turns = [self._turn(number) for number, part in enumerate(self._parts) if self._read[number] < len(part)]
        heapq.heapify(turns)
        while turns:
            number = turns[0][-1]
            group = self._parts[number][self._read[number]]
            if chosen and records + group.rows > max_records:
                break
            chosen.append(group)
            records += group.rows
            self._read[number] += 1
            if self._read[number] < len(self._parts[number]):
                heapq.heapreplace(turns, self._turn(number))
            else:
                heapq.heappop(turns)
        return sorted(chosen, key=lambda group: self._numbers[group.partition])

    def _turn(self, number: int) -> tuple[int, int, int]:
        """Sorts first for the part that goes on earliest; parts of which that is not known are read in turn."""
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
        """No records, but what is known of parts that were not begun yet."""
        unread = [number for number, read in enumerate(self._read) if not read]
        watermark = min((self._begins(number).watermark for number in unread), default=None)
        return Split([], 0, UNREAD, last=not unread, watermark=watermark)


def _counts(parts: Sequence[Sequence[RowGroup]], position: Position | None) -> list[int]:
    """How many row groups of each part were handed out."""
    if isinstance(position, list):
        return [int(read) for read in position]
    left = 0 if position is None else int(position)
    counts = []
    for part in parts:
        counts.append(min(left, len(part)))
        left -= counts[-1]
    return counts


def balanced(groups: Sequence[RowGroup], shares: int) -> list[list[RowGroup]]:
    """Neighbouring row groups in up to ``shares`` lists with nearly equal numbers of rows; order is kept."""
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
