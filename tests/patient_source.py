"""A source for the contract of sources whose messages arrive in their own time: it waits until all of them have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.waiting import eventually
from tidemill.connectors.sources import ClockOf, Position, Split, SplitEnumerator, SplitSource


class PatientSource(SplitSource):
    """Another source with ``count`` records. ``begin`` is called before it is read from its beginning.

    ``alive`` has the enumerators that are not closed. Those of drivers that died are closed when the next one is
    created, as the death of a process closes its connections.
    """

    def __init__(
        self,
        source: SplitSource,
        count: int,
        begin: Callable[[], None] | None = None,
        alive: list[SplitEnumerator] | None = None,
    ) -> None:
        self.source = source
        self.count = count
        self.begin = begin
        self.alive = alive
        self.bounded = source.bounded
        self.parallelism = source.parallelism
        self.type_info = getattr(source, "type_info", None)

    @property
    def clock_of(self) -> ClockOf:
        return self.source.clock_of

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        while self.alive:
            self.alive.pop().close()
        if position is None and self.begin is not None:
            self.begin()
        inner = self.source.create_enumerator(None if position is None else position["of"])
        if self.alive is not None:
            self.alive.append(inner)
        return PatientEnumerator(inner, self.count, 0 if position is None else position["read"])

    def read(self, split: Split) -> Iterator[Any]:
        return self.source.read(split)

    def __reduce__(self) -> tuple[Any, ...]:
        # The driver keeps this object: `begin` may be anything.
        return (_for_workers, (self.source, self.count))


def _for_workers(source: SplitSource, count: int) -> PatientSource:
    return PatientSource(source, count)


class PatientEnumerator(SplitEnumerator):
    def __init__(self, inner: SplitEnumerator, count: int, read: int) -> None:
        self.inner = inner
        self.count = count
        self.read = read

    def available(self) -> bool:
        self._wait()
        return self.inner.available()

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split | Sequence[Split]]:
        self._wait()
        splits = self.inner.next_splits(parallelism, max_records)
        for one in splits:
            self.read += one.records if isinstance(one, Split) else sum(split.records for split in one)
        return splits

    def position(self) -> Position:
        return {"of": self.inner.position(), "read": self.read}

    @property
    def finished(self) -> bool:
        return self.inner.finished

    def pending_records(self) -> int | None:
        return self.inner.pending_records()

    def committed(self) -> None:
        self.inner.committed()

    def close(self) -> None:
        self.inner.close()

    def _wait(self) -> None:
        left = self.count - self.read
        if left > 0:
            eventually(lambda: self.inner.available() and (self.inner.pending_records() or 0) >= left)
