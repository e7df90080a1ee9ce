"""Outputs: consumers, side outputs, types, counts."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.common import Types
from tidemill.datastream import OutputTag
from tidemill.errors import TypeMismatchError
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.output import Output

ODD, BIG = OutputTag("odd", Types.LONG()), OutputTag("big", Types.LONG())


class Consumer:
    def __init__(self, output: Output, side: str | None = None) -> None:
        self.records: list[tuple[Any, int | None]] = []
        self.watermarks: list[int] = []
        output.connect(self.take, self.watermarks.append, side)

    def take(self, batch: Batch) -> None:
        stamps: list[Any] = batch.timestamps or [None] * len(batch)
        self.records += zip(batch.values, stamps, strict=True)


def test_all_consumers_get_the_records_and_the_time() -> None:
    output = Output("operator 'x'", None)
    one, two, side = Consumer(output), Consumer(output), Consumer(output, "odd")
    output.emit([1, 2], [10, 20])
    output.emit([], None)
    output.watermark(5)
    assert one.records == two.records == [(1, 10), (2, 20)]
    assert side.records == []
    assert one.watermarks == two.watermarks == side.watermarks == [5]
    assert output.take_count() == 2
    assert output.take_count() == 0


@pytest.mark.parametrize("stamps", [None, [1, 2, 3, 4, 5, 6]])
def test_tagged_records_go_to_their_side_output(stamps: list[int] | None) -> None:
    output = Output("operator 'x'", None)
    main, odd, big = Consumer(output), Consumer(output, "odd"), Consumer(output, "big")
    output.emit_tagged([0, (ODD, 1), ("a", "pair"), (BIG, 2), (), (ODD, 3)], stamps)

    def stamp(position: int) -> int | None:
        return None if stamps is None else stamps[position]

    assert main.records == [(0, stamp(0)), (("a", "pair"), stamp(2)), ((), stamp(4))]
    assert odd.records == [(1, stamp(1)), (3, stamp(5))]
    assert big.records == [(2, stamp(3))]


def test_pairs_without_tags_stay_pairs() -> None:
    output = Output("operator 'x'", None)
    main = Consumer(output)
    output.emit_tagged([("a", 1), ("b", 2)], None)
    assert [value for value, _ in main.records] == [("a", 1), ("b", 2)]


def test_unread_side_outputs_are_dropped_or_reported() -> None:
    output = Output("operator 'x'", None)
    main = Consumer(output)
    output.emit_tagged([(ODD, 1), 2], None)
    told: list[Any] = []
    output.on_unread = lambda tag, batch: told.append((tag, batch.values))
    output.emit_tagged([(ODD, 1), 2], None)
    assert [value for value, _ in main.records] == [2, 2]
    assert told == [("odd", [1])]


def test_types_are_checked() -> None:
    output = Output("operator 'x' (uid u)", Types.LONG(), [("odd", Types.LONG())])
    Consumer(output)
    Consumer(output, "odd")
    with pytest.raises(TypeMismatchError, match=r"operator 'x' \(uid u\) produced a record of the wrong type"):
        output.emit([1, "two"], None)
    with pytest.raises(TypeMismatchError, match=r"produced a record for side output 'odd' of the wrong type"):
        output.emit_tagged([(ODD, "three")], None)


def test_a_batch_can_be_cut() -> None:
    batch = Batch([1, 2, 3], [10, 20, 30], ["a", "b", "c"])
    kept = batch.where([True, False, 1])
    assert (kept.values, kept.timestamps, kept.keys) == ([1, 3], [10, 30], ["a", "c"])
    assert len(batch) == 3
    assert repr(Batch([1])) == "Batch([1], None, None)"
