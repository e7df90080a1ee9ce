"""What makers of watermarks keep from one epoch to the next, and which subtask goes on with it.

The state of one subtask is None if its watermark, which is kept elsewhere, says all; else a list with an entry for each
partition of the source that it reads (:class:`PartitionState`), empty if it reads none. It is plain JSON data: it goes
into the manifest, and from there into the next epoch's context.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from tidemill.runtime.records import MIN_TIME

#: A list of :class:`PartitionState` as lists, or None.
TimeState = Any


class PartitionState(NamedTuple):
    """Event time in one partition; a source that names none, or an operator, has a single one with the name None.

    ``inactive_since`` is the processing time from which on it had no records. ``fields`` is what a generator of the
    user's own remembers (see :mod:`tidemill.runtime.generator_fields`).
    """

    partition: str | None
    watermark: int = MIN_TIME
    idle: bool = False
    inactive_since: int | None = None
    fields: str | None = None


def deal_times(
    states: Sequence[TimeState], parallelism: int, read: Sequence[Collection[str]], *, restarted: bool
) -> tuple[TimeState, ...]:
    """The states with which the subtasks of the next epoch begin.

    ``read`` are the partitions that each of them reads in that epoch.

    1. A partition goes to the subtask that reads it; new ones are known from the start, so that no other runs ahead.
    2. One that nobody reads stays where it is. If the parallelism changes, these are dealt out by their names.
    3. Where no partitions are named, each subtask goes on with its own state. If the parallelism changes nobody knows
       whose it was: all go on with that of the slowest, or of the slowest that was not idle.
    4. If the job was ``restarted``, the time without records is counted anew: it may only have been down. What was idle
       stays so.
    """
    known = [[PartitionState(*entry) for entry in state or ()] for state in states]
    readers = {partition: subtask for subtask, partitions in enumerate(read) for partition in partitions}
    same = len(states) == parallelism
    named = {entry.partition: (subtask, entry) for subtask, of in enumerate(known) for entry in of if entry.partition}
    partitioned = bool(named or readers) or [] in states
    dealt: list[list[PartitionState]] = [[] for _ in range(parallelism)]
    for number, partition in enumerate(sorted(named.keys() | readers.keys())):
        before, of_partition = named.get(partition, (0, PartitionState(partition)))
        stays = before if same else number % parallelism
        dealt[readers.get(partition, stays)].append(of_partition)  # 1, 2
    unnamed = [next((entry for entry in of if entry.partition is None), None) for of in known]
    if not same:
        unnamed = [_slowest(unnamed)] * parallelism
    for subtask, entry in enumerate(unnamed):  # 3
        if entry is not None:
            dealt[subtask].append(entry)
    return tuple(
        [list(entry._replace(inactive_since=None) if restarted and not entry.idle else entry) for entry in entries]  # 4
        if entries or partitioned
        else None
        for entries in dealt
    )


def _slowest(entries: Sequence[PartitionState | None]) -> PartitionState | None:
    """An entry that is missing is active, at a time that is known elsewhere."""
    if any(entry is None for entry in entries):
        return None
    found = [entry for entry in entries if entry is not None]
    return min(found, key=lambda entry: (entry.idle, entry.watermark), default=None)
