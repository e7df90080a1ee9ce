"""The state that watermark generators keep from one epoch to the next, and its distribution to subtasks.

The state of one subtask is None if its watermark, which is kept elsewhere, is sufficient. Otherwise it is a list with
an entry for each partition of the source that it reads (:class:`PartitionState`), empty if it reads none. It is plain
JSON data: it is stored in the manifest, and passed from there to the next epoch's context.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tidemill.connectors.sources import ClockOf
from tidemill.runtime.batch.records import MIN_TIME

#: A list of :class:`PartitionState` as lists, or None.
TimeState = Any


class PartitionState(NamedTuple):
    """Event time in one partition.

    A source that does not name partitions, or an operator, has a single one with the name None. ``inactive_since`` is
    the processing time since which there have been no records. ``fields`` is the state of a user-defined generator (see
    :mod:`tidemill.runtime.time.generator_fields`).
    """

    partition: str | None
    watermark: int = MIN_TIME
    idle: bool = False
    inactive_since: int | None = None
    fields: str | None = None


def deal_marks(
    marks: Sequence[int], states: Sequence[TimeState], parallelism: int, clock_of: ClockOf
) -> tuple[int, ...]:
    """The watermarks with which the subtasks of the next epoch begin, from those of the last one.

    If the parallelism changes, watermarks can no longer be assigned to subtasks: all begin with the slowest one that
    was not idle, or with the furthest if all were idle. If any subtask may read any partition, all begin with the time
    of the slowest partition, whichever subtask read it.
    """
    if clock_of is ClockOf.SOURCE:
        return (max(marks),) * parallelism
    if clock_of is ClockOf.PARTITION:
        active = [entry.watermark for _, entry in _by_partition(states).values() if not entry.idle]
        return (max(min(marks), min(active)) if active else max(marks),) * parallelism
    if len(marks) == parallelism:
        return tuple(marks)
    idle = [_is_idle(states[subtask] if subtask < len(states) else None) for subtask in range(len(marks))]
    active = [mark for mark, is_idle in zip(marks, idle, strict=True) if not is_idle]
    return (min(active) if active else max(marks),) * parallelism


def _is_idle(state: TimeState) -> bool:
    return state is not None and all(PartitionState(*entry).idle for entry in state)


def deal_times(
    states: Sequence[TimeState],
    parallelism: int,
    read: Sequence[Collection[str]],
    clock_of: ClockOf = ClockOf.SUBTASK,
    *,
    restarted: bool,
) -> tuple[TimeState, ...]:
    """The states with which the subtasks of the next epoch begin.

    ``read`` are the partitions that each subtask reads in that epoch, if they are known in advance.

    1. A partition is assigned to the subtask that reads it. New partitions are included from the start, so that no
       other partition gets ahead of them. A partition that is named by the rows of a split is assigned to the subtask
       that reads the split: the subtask that reads the end of the split releases it.
    2. A partition that no subtask reads stays with its subtask. If the parallelism changes, these partitions are
       distributed in the order of their names.
    3. If there are no named partitions, each subtask continues with its own state. If the parallelism changes, states
       can no longer be assigned to subtasks: all continue with the state of the slowest that was not idle, or of the
       slowest if all were idle. If the source has a single clock, all continue with the state of the furthest, active
       if any of them is.
    4. If the job was ``restarted``, the time without records is measured from zero, because the job itself may have
       been down. A partition that was idle stays idle.
    """
    known = [[PartitionState(*entry) for entry in state or ()] for state in states]
    readers = {partition: subtask for subtask, partitions in enumerate(read) for partition in partitions}
    same = len(states) == parallelism
    named = _by_partition(states)
    partitioned = bool(named or readers) or [] in states
    dealt: list[list[PartitionState]] = [[] for _ in range(parallelism)]
    for number, partition in enumerate(sorted(named.keys() | readers.keys())):
        before, of_partition = named.get(partition, (0, PartitionState(partition)))
        stays = before if same else number % parallelism
        reader = _reader(partition, readers) if clock_of is ClockOf.PARTITION else readers.get(partition)
        dealt[stays if reader is None else reader].append(of_partition)  # 1, 2
    unnamed = [next((entry for entry in of if entry.partition is None), None) for of in known]
    if clock_of is ClockOf.SOURCE:
        unnamed = [furthest(unnamed)] * parallelism
    elif clock_of is ClockOf.PARTITION and named:
        unnamed = []  # this entry only held time back until the first partition was known
    elif not same:
        unnamed = [_slowest(unnamed)] * parallelism
    for subtask, without_name in enumerate(unnamed):  # 3
        if without_name is not None:
            dealt[subtask].append(without_name)
    return tuple(
        [list(entry._replace(inactive_since=None) if restarted and not entry.idle else entry) for entry in entries]  # 4
        if entries or partitioned
        else None
        for entries in dealt
    )


def _reader(partition: str, readers: Mapping[str, int]) -> int | None:
    """The subtask that reads a partition, or the split whose rows name it: split/partition."""
    while partition and partition not in readers:
        partition = partition.rpartition("/")[0]
    return readers.get(partition)


def _by_partition(states: Sequence[TimeState]) -> dict[str, tuple[int, PartitionState]]:
    """The subtask and the state of each partition.

    Two subtasks have a partition if it has moved. The one that read it is further ahead, and takes precedence.
    """
    named: dict[str, tuple[int, PartitionState]] = {}
    for subtask, state in enumerate(states):
        for entry in (PartitionState(*entry) for entry in state or ()):
            if entry.partition is not None:
                other = named.get(entry.partition)
                if other is None or _progress(entry) > _progress(other[1]):
                    named[entry.partition] = subtask, entry
    return named


def _progress(entry: PartitionState) -> tuple[int, bool, bool]:
    return entry.watermark, not entry.idle, entry.inactive_since is None


def furthest(entries: Sequence[PartitionState | None]) -> PartitionState | None:
    """An active entry if there is one, with the greatest watermark of all.

    None if an entry is missing: it is active, at a time that is kept elsewhere.
    """
    if any(entry is None for entry in entries):
        return None
    found = [entry for entry in entries if entry is not None]
    if not found:
        return None
    best = max(found, key=lambda e: (not e.idle, e.inactive_since is None, e.inactive_since or 0, e.watermark))
    return best._replace(watermark=max(entry.watermark for entry in found))


def _slowest(entries: Sequence[PartitionState | None]) -> PartitionState | None:
    """The slowest active entry, or the slowest one if all are idle.

    None if an entry is missing: it is active, at a time that is kept elsewhere.
    """
    if any(entry is None for entry in entries):
        return None
    found = [entry for entry in entries if entry is not None]
    return min(found, key=lambda entry: (entry.idle, entry.watermark), default=None)
