"""Generated records: their number, their rate, their type."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.common import Row, Types, WatermarkStrategy
from tidemill.connectors.datagen import (
    DataGeneratorSource,
    GeneratorFunction,
    RateLimiterStrategy,
    _GeneratedEnumerator,
)
from tidemill.connectors.sources import Split, SplitEnumerator
from tidemill.errors import TidemillError
from tidemill.testing import JobHarness, run_local


def taken(enumerator: SplitEnumerator, max_records: int = 1_000_000) -> int:
    splits = enumerator.next_splits(2, max_records)
    return sum(split.records for split in splits if isinstance(split, Split))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_in_a_job() -> None:
    source = DataGeneratorSource(lambda n: n * n, 10)
    assert sorted(run_local(lambda env: env.from_source(source, WatermarkStrategy.no_watermarks(), "squares"))) == [
        n * n for n in range(10)
    ]


def test_with_a_type_tuples_become_rows() -> None:
    names = Types.ROW_NAMED(["id", "user"], [Types.LONG(), Types.STRING()])
    source = DataGeneratorSource(lambda n: (n, f"u{n}"), 2, type_info=names)
    rows = run_local(lambda env: env.from_source(source, None, "rows"), parallelism=1)
    assert rows == [Row(id=0, user="u0"), Row(id=1, user="u1")]


def test_without_a_count_it_never_ends() -> None:
    source = DataGeneratorSource(str)
    assert not source.bounded
    enumerator = source.create_enumerator(None)
    assert taken(enumerator, 10) == 10
    assert not enumerator.finished
    assert enumerator.available()
    assert enumerator.pending_records() is None


def test_no_records_at_all() -> None:
    assert run_local(lambda env: env.from_source(DataGeneratorSource(str, 0), None, "none")) == []


class Opened(GeneratorFunction):
    opened = 0

    def open(self) -> None:
        self.opened += 1

    def map(self, value: int) -> Any:
        return value, self.opened

    def close(self) -> None:
        self.opened -= 1


def test_a_generator_function_is_opened_and_closed() -> None:
    source = DataGeneratorSource(Opened(), 3)
    assert run_local(lambda env: env.from_source(source, None, "opened"), parallelism=1) == [(0, 1), (1, 1), (2, 1)]


class Refills(GeneratorFunction):
    """Fills the same objects for each record."""

    def __init__(self, first: int = 0) -> None:
        self.record: dict[str, Any] = {"inside": [0]}
        self.first = first

    def map(self, value: int) -> Any:
        if value < self.first:
            return value
        self.record["inside"][0] = value
        return self.record


def test_a_function_may_fill_one_object_again() -> None:
    source = DataGeneratorSource(Refills(), 5)
    records = run_local(lambda env: env.from_source(source, None, "refilled"), parallelism=1)
    assert records == [{"inside": [n]} for n in range(5)]


def test_a_function_may_begin_with_it_late() -> None:
    first = 20_000  # after several batches
    source = DataGeneratorSource(Refills(first), first + 3)
    records = run_local(lambda env: env.from_source(source, None, "refilled"), parallelism=1)
    assert records[first - 1 :] == [first - 1, *({"inside": [n]} for n in range(first, first + 3))]


def test_an_error_of_the_function_names_the_source() -> None:
    source = DataGeneratorSource(lambda n: 1 // (2 - n), 5)
    with pytest.raises(TidemillError, match=r"(?s)ZeroDivisionError.*Source: odd"):
        run_local(lambda env: env.from_source(source, None, "odd"), parallelism=1)


class TestRate:
    def enumerator(self, rate: RateLimiterStrategy, count: int | None = None) -> tuple[_GeneratedEnumerator, Clock]:
        clock = Clock()
        return _GeneratedEnumerator(0, count, rate, clock), clock

    def test_so_many_in_a_second(self) -> None:
        enumerator, clock = self.enumerator(RateLimiterStrategy.per_second(10))
        assert not enumerator.available()
        assert taken(enumerator) == 0
        clock.now += 0.25
        assert enumerator.available()
        assert taken(enumerator) == 2
        clock.now += 0.0625
        assert taken(enumerator) == 1  # what was left over counts
        assert enumerator.position() == 3

    def test_less_than_one_in_a_second(self) -> None:
        enumerator, clock = self.enumerator(RateLimiterStrategy.per_second(0.5))
        for _ in range(19):
            clock.now += 0.1
            assert not enumerator.available()
        clock.now += 0.1001
        assert taken(enumerator) == 1

    def test_a_pause_is_not_made_up_for(self) -> None:
        enumerator, clock = self.enumerator(RateLimiterStrategy.per_second(10))
        clock.now += 3600
        assert taken(enumerator) == 10

    def test_what_an_epoch_may_take_is_less(self) -> None:
        enumerator, clock = self.enumerator(RateLimiterStrategy.per_second(10))
        clock.now += 1
        assert taken(enumerator, 4) == 4
        assert taken(enumerator, 4) == 4
        assert taken(enumerator, 4) == 2

    def test_so_many_in_an_epoch(self) -> None:
        enumerator, _ = self.enumerator(RateLimiterStrategy.per_checkpoint(3), 7)
        assert [taken(enumerator) for _ in range(4)] == [3, 3, 1, 0]
        assert enumerator.finished

    def test_a_job_has_epochs_of_that_many(self) -> None:
        source = DataGeneratorSource(str, 7, RateLimiterStrategy.per_checkpoint(3))
        with JobHarness(lambda env: env.from_source(source, None, "numbers")) as job:
            job.end()
            assert [len(records) for records in job.recording().by_epoch().values()] == [3, 3, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataGeneratorSource("not a function"),  # type: ignore[arg-type]
        lambda: DataGeneratorSource(str, -1),
        lambda: DataGeneratorSource(str, 5, Types.STRING()),  # type: ignore[arg-type]
        lambda: RateLimiterStrategy.per_second(0),
        lambda: RateLimiterStrategy.per_second(float("nan")),
        lambda: RateLimiterStrategy.per_checkpoint(0),
    ],
    ids=["function", "count", "a type for a rate", "no rate", "nan", "no records"],
)
def test_what_cannot_be(make: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()
