"""Who continues with the time of which partition, and what a generator of one's own remembers."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.common.watermark_strategy import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    WatermarkGenerator,
    WatermarkOutput,
)
from tidemill.connectors.sources import ClockOf
from tidemill.runtime.time.generator_fields import GeneratorFields
from tidemill.runtime.time.time_states import deal_marks, deal_times

MIN_TIME = -(2**63)


def entry(partition: str | None, watermark: int = MIN_TIME, idle: bool = False, since: int | None = None) -> list[Any]:
    return [partition, watermark, idle, since, None]


def deal(
    states: Any,
    parallelism: int,
    *read: set[str],
    restarted: bool = False,
    clock_of: ClockOf = ClockOf.SUBTASK,
) -> list[Any]:
    return list(deal_times(states, parallelism, read, clock_of, restarted=restarted))


def test_nothing_to_go_on_with() -> None:
    assert deal((), 2) == [None, None]
    assert deal((None, None), 2) == [None, None]
    assert deal((None, None), 3) == [None, None, None]


def test_each_subtask_continues_with_its_own() -> None:
    states = ([entry(None, 5, True)], None, [entry(None, 7, False, 3)])
    assert deal(states, 3) == [[entry(None, 5, True)], None, [entry(None, 7, False, 3)]]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (([entry(None, 5)], [entry(None, 3)]), [entry(None, 3)]),
        (([entry(None, 5)], [entry(None, 3, True)]), [entry(None, 5)]),
        (([entry(None, 5, True)], [entry(None, 3, True)]), [entry(None, 3, True)]),
        (([entry(None, 5)], None), None),
    ],
    ids=["the slowest", "that is active", "all are idle", "one of which nothing is known"],
)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_with_another_parallelism_the_slowest_counts(states: Any, expected: Any, parallelism: int) -> None:
    assert deal(states, parallelism) == [expected] * parallelism


def test_a_partition_goes_to_who_reads_it() -> None:
    states = ([entry("p", 5), entry("q", 6)], [entry("r", 7)])
    assert deal(states, 2, set(), {"p"}) == [[entry("q", 6)], [entry("p", 5), entry("r", 7)]]


def test_a_partition_that_rows_of_a_split_have_named_goes_to_who_reads_the_split() -> None:
    states: Any = ([entry("f/p", 5), entry("g/p", 6)], [])
    dealt = deal(states, 2, {"g"}, {"f"}, clock_of=ClockOf.PARTITION)
    assert dealt == [[entry("g"), entry("g/p", 6)], [entry("f"), entry("f/p", 5)]]
    assert deal(states, 2, {"g"}, {"f"})[0][-2:] == [entry("g"), entry("g/p", 6)], "but here a name is only a name"


def test_a_new_partition_is_known_to_its_reader() -> None:
    assert deal((), 2, {"q", "p"}, {"r"}) == [[entry("p"), entry("q")], [entry("r")]]


def test_a_subtask_without_a_partition_knows_that_it_has_none() -> None:
    assert deal((), 3, {"p"}) == [[entry("p")], [], []]
    assert deal(([], []), 3) == [[], [], []]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_no_partition_is_lost_by_rescaling(parallelism: int) -> None:
    states = ([entry("a", 1), entry("b", 2)], [entry("c", 3)], [entry("d", 4)])
    dealt = deal(states, parallelism, {"d"})
    kept = sorted(one for entries in dealt for one in entries)
    assert kept == [entry("a", 1), entry("b", 2), entry("c", 3), entry("d", 4)]
    assert entry("d", 4) in dealt[0]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (([entry(None, 5, False, 1)], [entry(None, 3, False, 2)]), [entry(None, 5, False, 2)]),
        (([entry(None, 5, True, 1)], [entry(None, 3)]), [entry(None, 5)]),
        (([entry(None, 5, True, 1)], None), None),
        ((), None),
    ],
    ids=["the furthest, by who had records last", "one is active", "one has nothing to keep", "nothing is known"],
)
def test_a_source_with_one_clock_continues_as_one(states: Any, expected: Any) -> None:
    assert deal(states, 2, clock_of=ClockOf.SOURCE) == [expected] * 2


def test_of_a_partition_that_has_moved_the_reader_knows_more_than_the_keeper() -> None:
    states = ([entry("p", 5, True)], [entry("p", 5)], [entry("q", 1), entry("r", 4)], [entry("q", 3)])
    dealt = deal(states, 4, clock_of=ClockOf.PARTITION)
    assert dealt == [[], [entry("p", 5)], [entry("r", 4)], [entry("q", 3)]]


def test_what_holds_time_until_a_partition_is_known_is_forgotten_then() -> None:
    unknown = entry(None, MIN_TIME, False, 7)
    assert deal(([unknown], None), 2, clock_of=ClockOf.PARTITION) == [[unknown], None]
    assert deal(([unknown], [entry("p", 5)]), 2, clock_of=ClockOf.PARTITION) == [[], [entry("p", 5)]]


@pytest.mark.parametrize(
    ("marks", "states", "clock_of", "expected"),
    [
        ((5, 9), (), ClockOf.SUBTASK, (5, 5, 5)),
        ((5, 9), ([entry(None, 5, True)], None), ClockOf.SUBTASK, (9, 9, 9)),
        ((5, 9), ([entry(None, 5, True)], []), ClockOf.SUBTASK, (9, 9, 9)),
        ((1, 5, 9), (), ClockOf.SUBTASK, (1, 5, 9)),
        ((1, 5, 9), (), ClockOf.SOURCE, (9, 9, 9)),
        ((5, 9), (), ClockOf.SOURCE, (9, 9, 9)),
        ((4, 11, 4), ([entry("p", 4), entry("q", 12)], [entry("p", 7)], []), ClockOf.PARTITION, (7, 7, 7)),
        ((4, 11), ([entry("p", 4, True)], [entry("q", 11)]), ClockOf.PARTITION, (11, 11, 11)),
        ((6, 8), ([entry("p", 8)], [entry("new", 2)]), ClockOf.PARTITION, (6, 6, 6)),
        ((6, 8), ([entry("p", 8, True)], []), ClockOf.PARTITION, (8, 8, 8)),
    ],
    ids=[
        "the slowest",
        "that is active",
        "all are idle",
        "each its own",
        "the furthest",
        "of any number",
        "the slowest partition",
        "that is active",
        "never back",
        "all partitions are idle",
    ],
)
def test_watermarks_to_begin_with(marks: Any, states: Any, clock_of: ClockOf, expected: Any) -> None:
    assert deal_marks(marks, states, 3, clock_of) == expected


def test_after_a_restart_the_time_without_records_is_counted_anew() -> None:
    states = ([entry("p", 5, False, 17), entry("q", 6, True, 17)],)
    assert deal(states, 1, restarted=True) == [[entry("p", 5, False, None), entry("q", 6, True, 17)]]


class Remembering(WatermarkGenerator):
    def __init__(self, bound: int = 3) -> None:
        self.bound = bound
        self.seen: list[int] = []
        self.greatest: int | None = None

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.seen.append(event_timestamp)
        self.greatest = event_timestamp

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def remembered(generator: Any, again: Any) -> Any:
    """What one generator knows, put into another."""
    fields = GeneratorFields(generator)
    generator.on_event("a", 7, None)
    kept = fields.changed()
    assert kept is not None
    GeneratorFields(again).restore(kept)
    return again


def test_fields_that_changed_are_kept_and_others_are_the_programs() -> None:
    again = remembered(Remembering(3), Remembering(99))
    assert (again.bound, again.seen, again.greatest) == (99, [7], 7)


def test_a_new_generator_has_nothing_to_keep() -> None:
    assert GeneratorFields(Remembering()).changed() is None


@pytest.mark.parametrize(
    "generator", [AscendingTimestampsWatermarks(), BoundedOutOfOrdernessWatermarks(5), NoWatermarksGenerator()]
)
def test_built_in_generators_need_nothing(generator: Any) -> None:
    fields = GeneratorFields(generator)
    generator.on_event("a", 7, None)
    assert fields.changed() is None


def test_a_subclass_of_a_built_in_one_is_kept() -> None:
    class Mine(BoundedOutOfOrdernessWatermarks):
        pass

    again = remembered(Mine(5), Mine(5))
    assert again._max_timestamp == 7


def test_slots_and_own_ways_of_saying_what_is_kept() -> None:
    class Slotted:
        __slots__ = ("greatest",)

        def __init__(self) -> None:
            self.greatest = 0

        def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
            self.greatest = event_timestamp

    class Own(Remembering):
        def __getstate__(self) -> dict[str, Any]:
            return {"greatest": self.greatest}

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.greatest = state["greatest"]

    assert remembered(Slotted(), Slotted()).greatest == 7
    again = remembered(Own(), Own())
    assert (again.greatest, again.seen) == (7, [])
