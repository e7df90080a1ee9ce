"""A source that reads a Python collection."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tidemill.connectors.ranges import cut_range
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream.functions.pickling import given
from tidemill.errors import GraphError

__all__ = ["CollectionSource"]


class CollectionSource(SplitSource):
    """Reads a list in order, with one subtask; a position is an index into it.

    The elements are copied when the source is created, so later changes by the program have no effect. They stay on the
    driver: a split contains its own slice, and the pickled source contains no elements.

    >>> source = CollectionSource(["a", "b", "c"])
    >>> enumerator = source.create_enumerator(None)
    >>> [batch.values for split in enumerator.next_splits(1, 2) for batch in source.read(split)]
    [['a', 'b']]
    >>> enumerator.position(), enumerator.finished
    (2, False)
    """

    bounded = True
    replayable = True
    parallelism = 1

    def __init__(self, elements: Iterable[Any]) -> None:
        self._elements: list[Any] | None = _as_they_are(list(elements))

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that begins at an index. Only possible on the driver, not for a pickled copy."""
        if self._elements is None:
            raise GraphError(
                "a collection stays on the driver: create the enumerator from the program's source, not from a copy "
                "that was sent to a worker"
            )
        return _CollectionEnumerator(self._elements, 0 if position is None else int(position))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Return the slice that the split contains."""
        yield RecordBatch(split.payload)

    def __getstate__(self) -> dict[str, Any]:
        return {"_elements": None}


class _CollectionEnumerator(SplitEnumerator):
    def __init__(self, elements: list[Any], start: int) -> None:
        self._elements = elements
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        start = self._next
        self._next = min(len(self._elements), start + max(1, max_records))
        return [Split(self._elements[low:high], high - low) for low, high in cut_range(start, self._next, parallelism)]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._next >= len(self._elements)

    def pending_records(self) -> int:
        return len(self._elements) - self._next


def _as_they_are(elements: list[Any]) -> list[Any]:
    """Return copies of the elements."""
    try:
        copies: list[Any] = pickle.loads(pickle.dumps(elements, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception:  # a class or function that is not in any module, or an object that cannot be pickled at all
        return given(elements, "elements", "from_collection")
    return copies
