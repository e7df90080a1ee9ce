"""What the first row says of event time, as a strategy sees it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.semantics.cases_state import SecondField
from tests.semantics.partitions import OnMarker
from tidemill.common import WatermarkStrategy
from tidemill.datastream.program.ingestion_time import ingestion_time_strategy
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.stored_input.first_rows import FirstRows
from tidemill.runtime.stored_input.row_groups import Beginning

Strategy = WatermarkStrategy


def failing(value: Any, before: int) -> int:
    raise ValueError(value)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.for_bounded_out_of_orderness(10).with_timestamp_assigner(SecondField()), Beginning(100, 89)),
        (Strategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField()).with_idleness(5), (100, 99)),
        (Strategy.for_generator(OnMarker).with_timestamp_assigner(SecondField()), Beginning(100)),
        (Strategy.for_monotonous_timestamps(), Beginning(7, 6)),
        (Strategy.for_monotonous_timestamps().with_timestamp_assigner(failing), Beginning()),
        (ingestion_time_strategy(), Beginning()),
        (None, Beginning()),
    ],
    ids=["bounded", "monotonous", "of one's own", "no assigner", "raises", "ingestion time", "no strategy"],
)
def test_a_strategy_is_called(strategy: WatermarkStrategy | None, expected: Beginning) -> None:
    assert FirstRows(strategy).beginning(Batch([("a", 100)], [7])) == expected


def test_a_record_is_not_late_for_its_own_watermark() -> None:
    strategy = Strategy.for_generator(OnMarker).with_timestamp_assigner(SecondField())
    assert FirstRows(strategy).beginning(Batch([("mark", 100)])) == Beginning(100, 99)


def test_nothing_is_known_without_a_record() -> None:
    assert FirstRows(Strategy.for_monotonous_timestamps()).beginning(Batch([])) == Beginning()
