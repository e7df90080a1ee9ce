"""Reads one shard in a thread of the driver."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from tidemill.connectors.fetching import Fetcher
from tidemill.connectors.kinesis.assigners import ShardInfo
from tidemill.connectors.kinesis.client import AwsClients
from tidemill.connectors.kinesis.options import ConsumerOptions
from tidemill.connectors.kinesis.records import ShardRecord
from tidemill.errors import ConnectorError

__all__ = ["ShardReader"]

#: The service is overloaded; the library has already repeated the request several times.
_THROTTLED: Final = ("ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException")
_EXPIRED: Final = "ExpiredIteratorException"


class ShardReader(Fetcher[ShardRecord]):
    """Reads a shard from a position to its end: ``{"after": number}``, ``{"at": ms}``, or ``{}`` for its beginning."""

    def __init__(
        self,
        clients: AwsClients,
        client: Any,
        info: ShardInfo,
        options: ConsumerOptions,
        position: Mapping[str, Any],
        changed: threading.Condition,
    ) -> None:
        super().__init__(f"tidemill-kinesis-{info.shard}", f"shard {info.shard} of stream {info.stream!r}", changed)
        # configuration
        self.info = info
        self._clients = clients
        self._client = client
        self._options = options
        # transient
        self._fetched = dict(position)
        # checkpointed
        self.position = dict(position)

    def take(self, most: int) -> list[ShardRecord]:
        taken = super().take(most)
        if taken:
            self.position = {"after": taken[-1].sequence_number}
        return taken

    def fetch(self) -> None:
        iterator: str | None = None
        failures = 0
        while not self.closed:
            try:
                if iterator is None:
                    iterator = self._iterator()
                answer = self._clients.call(
                    self._client.get_records,
                    f"reading {self._shown}",
                    ShardIterator=iterator,
                    Limit=self._options.records_per_request,
                )
            except ConnectorError as error:
                code = _code(error)
                if code == _EXPIRED:
                    iterator = None
                    continue
                if code not in _THROTTLED or failures >= self._options.retries:
                    raise
                self.pause(self._options.backoff(failures))
                failures += 1
                continue
            failures = 0
            iterator = answer.get("NextShardIterator")
            records = [_record(found) for found in answer["Records"]]
            if records:
                self._fetched = {"after": records[-1].sequence_number}
            self.keep(records, ended=iterator is None)
            if iterator is None:
                return
            self.pause(self._options.interval)

    def _iterator(self) -> str:
        place = {"StreamName": self.info.stream, "ShardId": self.info.shard}
        if "after" in self._fetched:
            place |= {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": self._fetched["after"]}
        elif "at" in self._fetched:
            place |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": self._fetched["at"] / 1000}
        else:
            place |= {"ShardIteratorType": "TRIM_HORIZON"}
        answer = self._clients.call(self._client.get_shard_iterator, f"finding the position in {self._shown}", **place)
        iterator: str = answer["ShardIterator"]
        return iterator


def _record(found: Mapping[str, Any]) -> ShardRecord:
    arrival = int(found["ApproximateArrivalTimestamp"].timestamp() * 1000)
    return ShardRecord(found["SequenceNumber"], found["PartitionKey"], arrival, found["Data"])


def _code(error: ConnectorError) -> str:
    response = getattr(error.__cause__, "response", None)
    return str(response["Error"]["Code"]) if response else ""
