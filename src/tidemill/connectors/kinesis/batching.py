"""Writes records in batches to a service that may reject some of a batch, and repeats what was rejected."""

from __future__ import annotations

import abc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidemill.common.calls import call_each
from tidemill.common.serialization import SerializationSchema
from tidemill.connectors.kinesis.client import AwsClients
from tidemill.connectors.sinks import SinkWriter, WriterContext
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.errors import ConnectorError

__all__ = ["BatchLimits", "Rejected", "RequestWriter", "SizedRequest"]

#: The pauses between two attempts, in seconds.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
#: For how long rejected records are repeated while the service accepts none at all, in seconds.
_PATIENCE: Final = 300.0


@dataclass(frozen=True)
class BatchLimits:
    """The options of a sink, with the names of its builder. Sizes include the keys of records."""

    max_batch_size: int
    max_batch_size_in_bytes: int
    max_record_size_in_bytes: int
    max_buffered_requests: int = 10_000
    max_in_flight_requests: int = 50
    max_time_in_buffer_ms: int = 5000
    fail_on_error: bool = False


class SizedRequest(NamedTuple):
    """One record of a request, and its size."""

    request: dict[str, Any]
    size: int


class Rejected(NamedTuple):
    """A record that the service did not accept, by its place in the request."""

    place: int
    code: str
    message: str


class RequestWriter(SinkWriter):
    """Sends one request at a time, so that records keep their order unless some are rejected."""

    def __init__(self, clients: AwsClients, schema: SerializationSchema[Any], limits: BatchLimits) -> None:
        # configuration
        self._clients = clients
        self._schema = schema
        self._limits = limits
        self._buffered = max(limits.max_batch_size, limits.max_buffered_requests)
        # transient
        self._client: Any = None
        self._entries: list[SizedRequest] = []
        self._since = 0.0

    @abc.abstractmethod
    def entry(self, value: Any, data: bytes) -> SizedRequest:
        """Return the entry for a record."""

    @abc.abstractmethod
    def send(self, client: Any, entries: Sequence[SizedRequest]) -> Sequence[Rejected]:
        """Send a request, and return what was rejected. Raises :class:`ConnectorError` if the request failed."""

    @property
    @abc.abstractmethod
    def target(self) -> str:
        """The target of the records, for messages."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._client = self._clients.client()

    def begin_epoch(self, context: WriterContext) -> None:
        self._entries = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        if not self._entries:
            self._since = time.monotonic()
        serialized = call_each(self._schema.serialize, values, lambda error, position: error)
        for value, data in zip(values, serialized, strict=True):
            entry = self.entry(value, data)
            if entry.size > self._limits.max_record_size_in_bytes:
                raise ConnectorError(
                    f"a record of {entry.size:,} bytes is too large for {self.target}, which accepts "
                    f"{self._limits.max_record_size_in_bytes:,} (set_max_record_size_in_bytes): {data[:200]!r} ..."
                )
            self._entries.append(entry)
        self._flush(whole=self._due())

    def prepare_commit(self) -> Sequence[bytes]:
        self._flush(whole=True)
        return ()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _due(self) -> bool:
        waited = (time.monotonic() - self._since) * 1000
        return len(self._entries) >= self._buffered or waited >= self._limits.max_time_in_buffer_ms

    def _flush(self, *, whole: bool) -> None:
        """Send what is buffered; only full requests unless ``whole``."""
        done = 0
        while done < len(self._entries):
            end, full = self._request(done)
            if not (full or whole):
                break
            self._deliver(self._entries[done:end])
            done = end
            self._since = time.monotonic()
        del self._entries[:done]

    def _request(self, start: int) -> tuple[int, bool]:
        """Return the end of the request that begins at ``start``, and whether it is full."""
        most = min(len(self._entries), start + self._limits.max_batch_size)
        size = 0
        for place in range(start, most):
            size += self._entries[place].size
            if size > self._limits.max_batch_size_in_bytes and place > start:
                return place, True
        return most, most - start == self._limits.max_batch_size or size >= self._limits.max_batch_size_in_bytes

    def _deliver(self, entries: Sequence[SizedRequest]) -> None:
        """Send records until the service has accepted all of them."""
        pause = _FIRST_PAUSE
        deadline = time.monotonic() + _PATIENCE
        while rejected := self.send(self._client, entries):
            told = f"{self.target} rejected {len(rejected):,} of {len(entries):,} records: {_listed(rejected)}"
            if self._limits.fail_on_error:
                raise ConnectorError(f"{told} (set_fail_on_error(True))")
            if len(rejected) < len(entries):
                pause, deadline = _FIRST_PAUSE, time.monotonic() + _PATIENCE
            elif time.monotonic() + pause > deadline:
                raise ConnectorError(f"{told}, for {_PATIENCE:g} s: does it have enough capacity?")
            entries = [entries[one.place] for one in rejected]
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)


def _listed(rejected: Sequence[Rejected]) -> str:
    by_code: dict[str, Rejected] = {}
    for one in rejected:
        by_code.setdefault(one.code, one)
    return "; ".join(f"{code}: {one.message}" for code, one in sorted(by_code.items()))
