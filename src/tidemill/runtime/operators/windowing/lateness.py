"""Records that are too late for all of their windows."""

from __future__ import annotations

import logging
from typing import Any, Final

from tidemill.datastream.output_tag import OutputTag
from tidemill.runtime.observe.metrics import OperatorMetrics

log = logging.getLogger(__name__)

LATE_RECORDS_DROPPED: Final = "numLateRecordsDropped"


class LateRecords:
    """Passes late records to a side output, or drops and counts them. The first dropped record is logged."""

    def __init__(self, tag: OutputTag | None, metrics: OperatorMetrics, where: str) -> None:
        # configuration
        self._tag = tag
        self._dropped = metrics.counter(LATE_RECORDS_DROPPED)
        self._where = where
        # transient
        self._logged = False

    def take(self, value: Any, timestamp: int, watermark: int) -> tuple[OutputTag, Any] | None:
        """Return what to emit for a late record, if anything."""
        if self._tag is not None:
            return self._tag, value
        self._dropped.inc()
        if not self._logged:
            self._logged = True
            log.warning(
                "%s dropped a late record: its event time is %d, the watermark %d (%d ms ahead). More are only counted "
                "(%s); allowed_lateness() or side_output_late_data() keep them",
                self._where,
                timestamp,
                watermark,
                watermark - timestamp,
                LATE_RECORDS_DROPPED,
            )
        return None
