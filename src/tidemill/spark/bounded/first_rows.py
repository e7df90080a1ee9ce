"""What the first row of some input says of event time, before the input is read."""

from __future__ import annotations

import pickle

import cloudpickle

from tidemill.common.watermark_generators import Watermark, WatermarkOutput
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream.program.ingestion_time import IngestionTime
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.spark.bounded.row_groups import Beginning


class FirstRows:
    """Asks a strategy, as if a record were the first of its partition."""

    def __init__(self, strategy: WatermarkStrategy | None) -> None:
        """Without a strategy nothing is known."""
        # Its own objects are not asked: they may keep what they have seen.
        self._strategy = None if strategy is None else cloudpickle.dumps(strategy, 5)

    def beginning(self, records: Batch) -> Beginning:
        """How input begins whose first records are these; the least there is if that cannot be told.

        What the program raises is told when the record is read for good, with all that belongs to it.
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
    # A generator may say that time has come to the record's own: the record itself must not be late for it.
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
