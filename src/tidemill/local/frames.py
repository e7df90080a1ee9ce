"""The input of an epoch that the local engine reads itself: Arrow batches, as Spark's batches are for its engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemill.runtime.watched.watched_source import EpochRows

__all__ = ["LocalFrame", "Rows", "frame_of"]

#: Reads the rows of one partition; it can be called again if the epoch is run again.
Rows = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class LocalFrame:
    """The rows of one source, by partition. A source without rows has one empty partition."""

    chain: int
    partitions: tuple[Rows, ...]

    def rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition."""
        return self.partitions[partition]() if partition < len(self.partitions) else iter(())


def frame_of(rows: EpochRows | None, chain: int) -> LocalFrame:
    """Return the input of a chain."""
    return LocalFrame(chain, () if rows is None else tuple(rows.rows))
