"""A source of a sequence of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.ranges import cut_range
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource

__all__ = ["NumberSequenceSource"]

#: Numbers per batch: large enough to make the overhead of a batch negligible, small enough to stay in the CPU cache.
_BATCH: Final = 8192


class NumberSequenceSource(SplitSource):
    """Reads the numbers from ``start`` to ``end``, both inclusive, in parallel; a position is the next number.

    >>> source = NumberSequenceSource(1, 10)
    >>> enumerator = source.create_enumerator(None)
    >>> splits = enumerator.next_splits(parallelism=2, max_records=6)
    >>> [batch.values for split in splits for batch in source.read(split)]
    [[1, 2, 3], [4, 5, 6]]
    >>> enumerator.position()
    7
    """

    bounded = True
    replayable = True
    type_info: TypeInformation = Types.LONG()

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            raise ValueError(f"a number sequence from {start} to {end} is empty: the start must not exceed the end")
        self.start = start
        self.end = end

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that begins at a number."""
        return _NumberEnumerator(self.start if position is None else int(position), self.end)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Read the numbers of one split."""
        low, high = split.payload
        for start in range(low, high, _BATCH):
            yield RecordBatch(list(range(start, min(start + _BATCH, high))))


class _NumberEnumerator(SplitEnumerator):
    def __init__(self, start: int, end: int) -> None:
        self._next = start
        self._stop = end + 1

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        start = self._next
        self._next = min(self._stop, start + max(1, max_records))
        return [Split((low, high), high - low) for low, high in cut_range(start, self._next, parallelism)]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._next >= self._stop

    def pending_records(self) -> int:
        return self._stop - self._next
