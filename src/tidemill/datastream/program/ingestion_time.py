"""Ingestion time: the event time of a record is the time at which it was read."""

from __future__ import annotations

import time
from typing import Any

from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["IngestionTime", "ingestion_time_strategy"]


class IngestionTime(TimestampAssigner):
    """Assigns the processing time of the epoch that reads the record.

    That time is the same on all subtasks and never decreases. The runtime replaces :meth:`extract_timestamp` by the
    clock of the epoch.
    """

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The current time in ms."""
        return time.time_ns() // 1_000_000


def ingestion_time_strategy() -> WatermarkStrategy:
    """Assigns the processing time of the epoch as timestamp. Watermarks are 1 ms lower.

    >>> ingestion_time_strategy().timestamp_assigner.extract_timestamp("a record", -1) > 0
    True
    """
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(IngestionTime())
