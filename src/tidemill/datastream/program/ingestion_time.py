"""Ingestion time: a record's event time is when it was read."""

from __future__ import annotations

import time
from typing import Any

from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["IngestionTime", "ingestion_time_strategy"]


class IngestionTime(TimestampAssigner):
    """The processing time of the epoch that reads the record: the same on all subtasks, and never going back.

    The runtime puts the epoch's clock in the place of :meth:`extract_timestamp`.
    """

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Now, in ms."""
        return time.time_ns() // 1_000_000


def ingestion_time_strategy() -> WatermarkStrategy:
    """Stamps records with the processing time of the epoch that reads them; watermarks follow, 1 ms behind.

    >>> ingestion_time_strategy().timestamp_assigner.extract_timestamp("a record", -1) > 0
    True
    """
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(IngestionTime())
