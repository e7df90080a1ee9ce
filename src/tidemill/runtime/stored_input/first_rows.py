"""The event time of the first row of an input, determined before the input is read."""

from __future__ import annotations

import pickle

from tidemill.common.watermark_generators import Watermark, WatermarkOutput
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream.functions.pickling import pickled_by_value
from tidemill.datastream.program.ingestion_time import IngestionTime
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.stored_input.row_groups import Beginning


class FirstRows:
    """Applies a watermark strategy to a record as if it were the first of its partition."""

    def __init__(self, strategy: WatermarkStrategy | None) -> None:
        """Without a strategy, the event time of the first row is unknown."""
        # Use a copy of the strategy: the program's own objects may have state that records change.
        self._strategy = None if strategy is None else pickled_by_value(strategy)

    def beginning(self, records: Batch) -> Beginning:
        """Return how an input begins whose first records are ``records``: the minimum time if that is unknown.

        Exceptions of the user's strategy are ignored here. They are reported, with their full context, when a worker
        reads the record.
        """
        if self._strategy is None or not len(records):
            return Beginning()
        try:
            return _asked(pickle.loads(self._strategy), records)
        except Exception:
            return Beginning()


def _asked(strategy: WatermarkStrategy, records: Batch) -> Beginning:
    assigner = strategy.timestamp_assigner
    if isinstance(assigner, IngestionTime):
        return Beginning()
    value = records.values[0]
    timestamp = MIN_TIME if records.timestamps is None else records.timestamps[0]
    if assigner is not None:
        timestamp = assigner.extract_timestamp(value, timestamp)
    generator = strategy.create_watermark_generator(lambda: 0)
    output = _Greatest()
    generator.on_event(value, timestamp, output)
    generator.on_periodic_emit(output)
    # A generator may emit a watermark equal to the record's timestamp, but the record itself must not be late.
    return Beginning(timestamp, max(MIN_TIME, min(output.watermark, timestamp - 1)))


class _Greatest(WatermarkOutput):
    def __init__(self) -> None:
        self.watermark = MIN_TIME

    def emit_watermark(self, watermark: Watermark) -> None:
        self.watermark = max(self.watermark, watermark.timestamp)

    def mark_idle(self) -> None:
        pass

    def mark_active(self) -> None:
        pass
