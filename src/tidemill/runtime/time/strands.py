"""Strands: what one task reads of one file, log or other part of a source in one epoch, in order.

If input is reassigned to tasks in each epoch, a task may read several parts of the source, one after the other or
interleaved, each with its own event time. Each of them is a strand: its parcels have their own sequence numbers and
watermarks. The receiver, which sorts parcels by progress, can therefore read all strands in parallel, in whatever order
tasks have read them. :class:`~tidemill.runtime.time.source_clock.SourceClock` combines their times.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

#: The maximum number of strands of one task that have their own time. Each costs a parcel per target. If a task reads a
#: thousand small files, those beyond this number share strand 0.
MOST_STRANDS: Final = 64


class Strand(NamedTuple):
    """One strand of a task. Rows of strand 0 may be in any order: its time does not advance until all have been read.

    ``partition`` is the name of the partition of the source that the rows are from, if the source names partitions.
    ``split`` is the name of the :class:`~tidemill.connectors.sources.Split`. With ``last``, the partition of that split
    has no more records after this epoch.
    """

    number: int
    partition: str | None = None
    split: str | None = None
    last: bool = False


class PartitionEnd(NamedTuple):
    """The time of a partition at the end of an epoch, as one task reports it. The name None is the whole source."""

    partition: str | None
    watermark: int
    idle: bool


class SentStrand(NamedTuple):
    """What a target needs to know about a strand before its first record: the number of parcels and the start time."""

    number: int
    partition: str | None
    parcels: int
    start: int


class Opening(NamedTuple):
    """A task's announcement of all its strands to a target. It is sent last, and read before everything else."""

    strands: Sequence[SentStrand]
    ends: Sequence[PartitionEnd]

    def pack(self) -> bytes:
        return pickle.dumps(([tuple(strand) for strand in self.strands], [tuple(end) for end in self.ends]), 5)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Opening:
        strands, ends = pickle.loads(data)
        return cls([SentStrand(*strand) for strand in strands], [PartitionEnd(*end) for end in ends])


class StrandListener(Protocol):
    """Is notified of strands in band, as of watermarks."""

    def progress(self, strand: Strand, watermark: int) -> None:
        """The following records belong to this strand, whose time is ``watermark``."""

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """The epoch has ended; ``ends`` are the times that its partitions have reached."""


class StrandNumbers:
    """Numbers the strands of a task in the order in which they first occur in an epoch."""

    def __init__(self) -> None:
        self._strands: dict[tuple[str | None, str | None, int | None], Strand] = {}

    def clear(self) -> None:
        """Begin a new epoch."""
        self._strands.clear()

    def of(self, partition: str | None, split: str | None, file: int | None, *, last: bool) -> Strand:
        """The strand for the rows of one partition and one file. If neither is known, rows may be in any order."""
        if partition is None and file is None:
            return Strand(0, None, split, last)
        key = partition, split, file
        found = self._strands.get(key)
        if found is None:
            met = len(self._strands) + 1
            found = self._strands[key] = Strand(met if met <= MOST_STRANDS else 0, partition, split, last)
        return found
