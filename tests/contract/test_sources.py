"""The sources that are read in plain Python under the contract of all such sources; and that the contract can fail."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tidemill.common.typeinfo import Types
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream.connectors import HybridSource
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_collection(case: SourceCase) -> None:
    check_source(case, lambda: CollectionSource([[n] for n in range(20)]), [[n] for n in range(20)])


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_number_sequence(case: SourceCase) -> None:
    check_source(case, lambda: NumberSequenceSource(5, 23), range(5, 24))


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_generated_records(case: SourceCase) -> None:
    check_source(case, lambda: DataGeneratorSource(lambda n: {"id": n}, 20), [{"id": n} for n in range(20)])


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_generated_records_so_many_an_epoch(case: SourceCase) -> None:
    rate = RateLimiterStrategy.per_checkpoint(2)
    check_source(case, lambda: DataGeneratorSource(str, 11, rate), map(str, range(11)))


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_one_source_after_the_other(case: SourceCase) -> None:
    def several() -> HybridSource:
        numbers = HybridSource.builder(NumberSequenceSource(5, 12)).add_source(CollectionSource([[1], [2], [3]]))
        return numbers.add_source(NumberSequenceSource(20, 26)).build()

    check_source(case, several, [*range(5, 13), [1], [2], [3], *range(20, 27)])


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_an_unbounded_source_after_a_bounded_one(case: SourceCase) -> None:
    def several() -> HybridSource:
        return HybridSource.builder(NumberSequenceSource(1, 8)).add_source(Shelves(SHELVES)).build()

    check_source(case, several, [*range(1, 9), *range(10), *range(100, 104)])


class Shelves(SplitSource):
    """What a custom source may look like: several partitions that grow, a position for each, Arrow batches."""

    bounded = False
    type_info = Types.LONG()

    def __init__(self, shelves: dict[str, list[int]]) -> None:
        self.shelves = shelves

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return ShelfEnumerator(self.shelves, position or {})

    def read(self, split: Split) -> Iterator[Any]:
        shelf, low, high = split.payload
        yield pa.record_batch({"number": pa.array(self.shelves[shelf][low:high], pa.int64())})


class ShelfEnumerator(SplitEnumerator):
    def __init__(self, shelves: dict[str, list[int]], position: dict[str, int]) -> None:
        self.shelves = shelves
        self.next = {shelf: position.get(shelf, 0) for shelf in shelves}

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Sequence[Split]]:
        dealt: list[list[Split]] = [[] for _ in range(parallelism)]
        each = max(1, max_records // len(self.shelves))
        for number, (shelf, books) in enumerate(sorted(self.shelves.items())):
            low = self.next[shelf]
            high = self.next[shelf] = min(len(books), low + each)
            dealt[number % parallelism].append(Split((shelf, low, high), high - low, partition=shelf))
        return dealt

    def position(self) -> Position:
        return dict(self.next)

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        return any(self.next[shelf] < len(books) for shelf, books in self.shelves.items())


SHELVES = {"a": list(range(10)), "b": list(range(100, 104)), "c": []}


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_a_source_with_partitions_of_its_own(case: SourceCase) -> None:
    check_source(case, lambda: Shelves(SHELVES), [*range(10), *range(100, 104)])


# --- sources that break a rule


class Broken(SplitSource):
    """The numbers from 0 to 19."""

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return BrokenEnumerator(self, position)

    def read(self, split: Split) -> Iterator[Any]:
        yield RecordBatch(list(range(*split.payload)))


class BrokenEnumerator(SplitEnumerator):
    def __init__(self, source: Broken, position: Position | None) -> None:
        self.source = source
        self.next = 0 if position is None else position

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        low, self.next = self.next, min(20, self.next + max_records)
        return [Split((low, self.next), self.next - low)]

    def position(self) -> Position:
        return self.next

    @property
    def finished(self) -> bool:
        return bool(self.next >= 20)


class ForgetsItsPosition(Broken):
    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return BrokenEnumerator(self, None)


class PositionBeforeTheSplits(Broken):
    """Gives the position it had before."""

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        class Late(BrokenEnumerator):
            def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
                self.before = self.next
                return super().next_splits(parallelism, max_records)

            def position(self) -> Position:
                return getattr(self, "before", self.next)

        return Late(self, position)


class PositionsAreTuples(Broken):
    """JSON makes lists of tuples, which are not equal to them."""

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        class Tuples(BrokenEnumerator):
            def position(self) -> Position:
                return (self.next,)

        return Tuples(self, position[0] if isinstance(position, tuple) else None)


class NeverTheSame(Broken):
    def read(self, split: Split) -> Iterator[Any]:
        yield RecordBatch([random.random() for _ in range(*split.payload)])


class TooManySplits(Broken):
    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        class Many(BrokenEnumerator):
            def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
                (split,) = super().next_splits(parallelism, max_records)
                return [Split((n, n + 1), 1) for n in range(*split.payload)]

        return Many(self, position)


class IgnoresTheLimit(Broken):
    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        class Greedy(BrokenEnumerator):
            def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
                return super().next_splits(parallelism, 20)

        return Greedy(self, position)


class ReadsOnce(Broken):
    """Keeps its records on the driver, and forgets them once they are read."""

    given: set[int] = set()  # noqa: RUF012 - what all copies share

    def read(self, split: Split) -> Iterator[Any]:
        fresh = [n for n in range(*split.payload) if n not in self.given]
        self.given.update(fresh)
        yield RecordBatch(fresh)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (ForgetsItsPosition, "started again at any position"),
        (ForgetsItsPosition, "a job killed at acks.collected"),
        (PositionBeforeTheSplits, "started again at any position"),
        (PositionsAreTuples, "started again at any position"),
        (NeverTheSame, "the same position gives the same records"),
        (TooManySplits, "in small epochs by 2"),
        (IgnoresTheLimit, "epochs have about as many records as asked for"),
        (ReadsOnce, "a split is read twice"),
        (ReadsOnce, "a job killed at task.batch"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_broken_source_is_noticed(source: type[Broken], name: str) -> None:
    ReadsOnce.given = set()
    (case,) = [case for case in SOURCE_CASES if case.name == name]
    with pytest.raises(AssertionError):
        check_source(case, source, range(20))
