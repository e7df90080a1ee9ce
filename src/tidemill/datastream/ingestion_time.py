"""Ingestion time: a record's event time is when it was read."""

from __future__ import annotations

import time
from typing import Any

from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkStrategy


class IngestionTime(TimestampAssigner):
    """The clock of the worker that reads the record."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Now, in ms."""
        return int(time.time() * 1000)


def ingestion_time_strategy() -> WatermarkStrategy:
    """Stamps records as they are read."""
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(IngestionTime())
