"""Strands: what one task reads of one file, log or other part of a source in one epoch, in order.

Where input is dealt out to tasks anew in each epoch, a task may read several parts of the source one after the other,
or mixed, each of them with an event time of its own. Each is a strand: its parcels have sequence numbers and watermarks
of their own, so that the receiver, which sorts parcels by progress, reads all strands side by side, in whatever order
tasks have read them. How their times are combined: :class:`~tidemill.runtime.time.source_clock.SourceClock`.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

#: Strands of one task that have a time of their own. Each costs a parcel per target; of a thousand small files the
#: later ones share the strand 0.
MOST_STRANDS: Final = 64


class Strand(NamedTuple):
    """One strand of a task. Rows of number 0 may be in any order: its time stands still until all have been read.

    ``partition`` names the lasting part of the source that it is from, if the source has such: see
    :class:`~tidemill.connectors.sources.Split`, whose own name is ``split``. With ``last`` nothing of that split's
    partition comes after this epoch.
    """

    number: int
    partition: str | None = None
    split: str | None = None
    last: bool = False


class PartitionEnd(NamedTuple):
    """What a partition has come to at the end of an epoch, as one task knows it; the name None is the whole source."""

    partition: str | None
    watermark: int
    idle: bool


class SentStrand(NamedTuple):
    """What a target must know of a strand before its first record: how much of it comes, and from which time on."""

    number: int
    partition: str | None
    parcels: int
    start: int


class Opening(NamedTuple):
    """What a task tells a target of all its strands. It is sent last, and read before everything else."""

    strands: Sequence[SentStrand]
    ends: Sequence[PartitionEnd]

    def pack(self) -> bytes:
        return pickle.dumps(([tuple(strand) for strand in self.strands], [tuple(end) for end in self.ends]), 5)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Opening:
        strands, ends = pickle.loads(data)
        return cls([SentStrand(*strand) for strand in strands], [PartitionEnd(*end) for end in ends])


class StrandListener(Protocol):
    """Is told of strands in band, as of watermarks."""

    def progress(self, strand: Strand, watermark: int) -> None:
        """What follows is of this strand, whose time is this."""

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """The epoch is over: what partitions have come to."""


class StrandNumbers:
    """Gives the strands of a task their numbers, in the order in which they are first met in an epoch."""

    def __init__(self) -> None:
        self._strands: dict[tuple[str | None, str | None, int | None], Strand] = {}

    def clear(self) -> None:
        """A new epoch begins."""
        self._strands.clear()

    def of(self, partition: str | None, split: str | None, file: int | None, *, last: bool) -> Strand:
        """The strand of rows of one partition and one file; rows of which neither is known may be in any order."""
        if partition is None and file is None:
            return Strand(0, None, split, last)
        key = partition, split, file
        found = self._strands.get(key)
        if found is None:
            met = len(self._strands) + 1
            found = self._strands[key] = Strand(met if met <= MOST_STRANDS else 0, partition, split, last)
        return found
