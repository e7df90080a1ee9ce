"""The position of a Kafka source while a job reads it.

For each batch, Spark logs the end offset of each partition, and the job's manifest contains a copy. The local engine
writes the same text. A source therefore resumes from the end of the last committed epoch, on either engine, regardless
of the offsets of its consumer group.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from tidemill.connectors.kafka.broker_queries import BrokerQueries
from tidemill.connectors.kafka.positions import from_spark_offsets, resumed, spark_offsets
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.connectors.position_tracker import PositionTracker

__all__ = ["KafkaTracker"]

log = logging.getLogger(__name__)

#: The minimum interval between two commits of positions to the consumer group, as in Kafka's own consumers. A commit
#: takes about 0.3 ms for each partition.
_REPORT_SECONDS: Final = 5.0
#: The time to wait for the broker's response when the query ends.
_LAST_REPORT_SECONDS: Final = 2.0


class KafkaTracker(PositionTracker):
    """Checks the offsets to resume from, identifies topics by their ids, and reports offsets to the consumer group."""

    def __init__(self, source: KafkaSource, connect: Callable[[], BrokerQueries]) -> None:
        """``connect`` connects to the brokers of the source."""
        # configuration
        self._source = source
        self._connect = connect
        # transient
        self._connected: BrokerQueries | None = None
        self._ids: dict[str, str] = {}
        self._last: str | None = None
        self._unreported: str | None = None
        self._reported_at = -_REPORT_SECONDS

    def revised(self, offset: str, ids: Mapping[str, str]) -> str:
        """Return the same offset, unless the source now reads other topics, or may skip records that were deleted.

        Raises :class:`~tidemill.errors.LostInputError` if records were deleted that it may not skip.
        """
        self._last = offset
        stored = from_spark_offsets(offset)
        broker = self._broker()
        positions = {each: at for each, at in stored.items() if broker.is_read(each)}
        for each in stored.keys() - positions.keys():
            log.warning("%s is no longer read: its position %d is discarded", each, stored[each])
        self._ids = broker.topic_ids({partition.topic for partition in positions})
        others = {topic for topic, name in ids.items() if self._ids.get(topic, name) != name}
        begun = resumed(positions, broker.facts(list(positions)), self._source.reset, others)
        return offset if begun == stored else spark_offsets(begun)

    def ids(self, offset: str | None) -> dict[str, str]:
        """Return Kafka's own ids of the topics."""
        unknown = (set() if offset is None else set(json.loads(offset))) - self._ids.keys()
        if unknown:
            self._ids |= self._broker().topic_ids(unknown)
        return dict(self._ids)

    def committed(self, offset: str, *, checkpoint: bool) -> None:
        """Report checkpoints to the consumer group, for monitoring: every few seconds, and the last one."""
        self._last = offset
        if checkpoint and self._source.commits_offsets:
            self._unreported = offset
            if time.monotonic() - self._reported_at >= _REPORT_SECONDS:
                self._report(offset)

    def explain_failure(self) -> None:
        if self._last is not None:
            self.revised(self._last, self._ids)

    def close(self) -> None:
        try:
            if self._unreported is not None:
                self._report(self._unreported, seconds=_LAST_REPORT_SECONDS)
        finally:
            if self._connected is not None:
                self._connected.close()
                self._connected = None

    def _report(self, offset: str, seconds: float = 0) -> None:
        self._broker().commit(from_spark_offsets(offset), seconds=seconds)
        self._unreported, self._reported_at = None, time.monotonic()

    def _broker(self) -> BrokerQueries:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected
