"""The clock over the strands of a source: slowest strand, slowest partition, who has ended, who is idle."""

from __future__ import annotations

from tidemill.runtime.time.source_clock import SourceClock
from tidemill.runtime.time.strands import MOST_STRANDS, Opening, PartitionEnd, SentStrand, Strand, StrandNumbers

MIN_TIME = -(2**63)


def opened(*openings: Opening, start: int = MIN_TIME) -> SourceClock:
    clock = SourceClock()
    for sender, opening in enumerate(openings):
        clock.open(sender, Opening.unpack(opening.pack()), start)
    clock.begin()
    return clock


def test_the_slowest_strand_counts_until_it_is_read() -> None:
    one = Opening([SentStrand(1, None, 2, 5), SentStrand(2, None, 1, 5)], [PartitionEnd(None, 90, False)])
    two = Opening([SentStrand(1, None, 1, 5)], [PartitionEnd(None, 40, False)])
    clock = opened(one, two)
    assert clock.time == 5
    clock.advance(0, 1, 20)
    clock.advance(1, 1, 30)
    assert clock.time == 5, "the second strand of the first task was not read yet"
    clock.advance(0, 2, 90)
    assert clock.time == 20
    clock.parcel_read(0, 2)
    clock.parcel_read(0, 1)
    assert clock.time == 20, "there is more of this one"
    clock.parcel_read(0, 1)
    assert clock.time == 30
    clock.parcel_read(1, 1)
    assert (clock.time, clock.idle) == (90, False), "the furthest, now that all is read"


def test_a_strand_never_goes_back_and_one_that_is_not_known_counts_for_nothing() -> None:
    clock = opened(Opening([SentStrand(1, None, 1, 5)], [PartitionEnd(None, 9, False)]))
    clock.advance(0, 1, 8)
    clock.advance(0, 1, 6)
    clock.advance(0, 7, 3)
    clock.parcel_read(0, 7)
    assert clock.time == 8


def test_a_strand_without_parcels_for_this_target_holds_no_other_back() -> None:
    clock = opened(Opening([SentStrand(1, None, 0, 5)], [PartitionEnd(None, 9, False)]))
    assert clock.time == 9


def test_the_slowest_partition_counts_also_where_no_task_has_read_it() -> None:
    reader = Opening([SentStrand(1, "p", 1, 50)], [PartitionEnd("p", 80, False)])
    keeper = Opening([], [PartitionEnd("p", 50, True), PartitionEnd("q", 60, False), PartitionEnd("idle", 1, True)])
    clock = opened(reader, keeper)
    assert clock.time == 50
    clock.advance(0, 1, 80)
    assert clock.time == 60
    clock.parcel_read(0, 1)
    assert (clock.time, clock.idle) == (60, False)


def test_a_partition_read_by_two_has_the_time_of_the_slower_and_then_of_the_furthest() -> None:
    first = Opening([SentStrand(1, "p", 1, 0)], [PartitionEnd("p", 100, False)])
    second = Opening([SentStrand(1, "p", 1, 0)], [PartitionEnd("p", 200, False)])
    clock = opened(first, second)
    clock.advance(1, 1, 200)
    clock.parcel_read(1, 1)
    assert clock.time == 0
    clock.advance(0, 1, 100)
    assert clock.time == 100
    clock.parcel_read(0, 1)
    assert clock.time == 200


def test_the_placeholder_for_unknown_partitions_counts_only_while_none_is_known() -> None:
    assert opened(Opening([], [PartitionEnd(None, MIN_TIME, False)])).time == MIN_TIME
    assert opened(Opening([], [PartitionEnd(None, 3, False)]), Opening([], [PartitionEnd("p", 7, False)])).time == 7


def test_a_partition_that_has_ended_holds_no_other_back() -> None:
    clock = opened(Opening([SentStrand(1, "ended", 1, 5)], [PartitionEnd("p", 70, False)]))
    clock.parcel_read(0, 1)
    assert clock.time == 70


def test_if_all_are_idle_time_goes_to_the_greatest() -> None:
    clock = opened(Opening([], [PartitionEnd("p", 5, True), PartitionEnd("q", 9, True)]))
    assert (clock.time, clock.idle) == (9, True)
    clock = opened(Opening([SentStrand(1, "p", 1, 5)], [PartitionEnd("p", 7, True), PartitionEnd("q", 6, True)]))
    assert (clock.time, clock.idle) == (5, False)
    clock.parcel_read(0, 1)
    assert (clock.time, clock.idle) == (7, True)


def test_a_partition_that_comes_back_may_be_behind_but_time_stays_where_it_was() -> None:
    opening = Opening([SentStrand(1, "late", 1, 5)], [PartitionEnd("late", 60, False), PartitionEnd("p", 90, False)])
    clock = opened(opening, start=40)
    assert clock.time == 40
    clock.advance(0, 1, 30)
    assert clock.time == 40
    clock.advance(0, 1, 60)
    assert clock.time == 60


def test_strands_have_numbers_up_to_a_bound() -> None:
    numbers = StrandNumbers()
    assert numbers.of(None, None, None, last=False) == Strand(0), "rows in any order"
    assert numbers.of("p", None, None, last=False) == Strand(1, "p")
    assert numbers.of(None, None, 77, last=False) == Strand(2)
    assert numbers.of("p", None, None, last=False).number == 1
    many = [numbers.of(None, None, file, last=False).number for file in range(100, 300)]
    assert max(many) == MOST_STRANDS
    assert many.count(0) == 200 - (MOST_STRANDS - 2)
    numbers.clear()
    assert numbers.of("q", "q", None, last=True) == Strand(1, "q", "q", True)
