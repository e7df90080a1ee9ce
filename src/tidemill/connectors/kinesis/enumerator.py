"""Finds the shards of streams, and deals their records to epochs.

A shard that was created by a resharding is read when its parents have been read to their end, so that records of a key
are read in order. The position is that of every shard: the sequence number of the last record of a committed epoch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidemill.connectors.kinesis.assigners import KinesisShardAssigner, ShardInfo
from tidemill.connectors.kinesis.client import AwsClients
from tidemill.connectors.kinesis.options import ConsumerOptions
from tidemill.connectors.kinesis.records import ShardRecords
from tidemill.connectors.kinesis.shards import ShardReader
from tidemill.connectors.sources import Position, Split, SplitEnumerator
from tidemill.errors import ConnectorError, LostInputError

__all__ = ["ShardEnumerator"]

log = logging.getLogger(__name__)

#: How long to wait for threads that are reading, in seconds: as long as the client library waits for a response.
_JOIN: Final = 60.0
_ENDED: Final = {"ended": True}

Shard = tuple[str, str]


class ShardEnumerator(SplitEnumerator):
    """The shards of some streams, read from a position. Shards are found when this is created, and at intervals."""

    def __init__(
        self,
        clients: AwsClients,
        streams: Sequence[str],
        options: ConsumerOptions,
        assigner: KinesisShardAssigner,
        position: Mapping[str, Mapping[str, Any]] | None,
    ) -> None:
        # configuration
        self._clients = clients
        self._client = clients.client()
        self._streams = streams
        self._options = options
        self._assigner = assigner
        # transient
        self._changed = threading.Condition()
        self._readers: dict[Shard, ShardReader] = {}
        self._announced: set[Shard] = set()
        self._error: ConnectorError | LostInputError | None = None
        self._closed = False
        # checkpointed
        self._positions: dict[Shard, dict[str, Any]] = {
            (stream, shard): dict(place)
            for stream, shards in (position or {}).items()
            for shard, place in shards.items()
        }
        self._found: dict[Shard, ShardInfo] = {}
        new = {stream for stream in streams if stream not in (position or {})}
        self._discover(new)
        self._thread = threading.Thread(target=self._watch, name="tidemill-kinesis-shards", daemon=True)
        self._thread.start()

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Sequence[Split]]:
        dealt: list[list[Split]] = [[] for _ in range(parallelism)]
        with self._changed:
            self._check()
            waiting = {shard: reader for shard, reader in self._readers.items() if reader.waiting()}
            left = max(1, max_records)
            for number, (shard, reader) in enumerate(waiting.items()):
                taken = reader.take(-(-left // (len(waiting) - number)))
                left -= len(taken)
                split = self._split(reader, ShardRecords(*shard, taken))
                dealt[self._assigner.assign(reader.info, parallelism)].append(split)
                if left <= 0:
                    break
            for shard, reader in self._readers.items():
                if shard not in self._announced or (reader.exhausted and shard not in waiting):
                    dealt[self._assigner.assign(reader.info, parallelism)].append(
                        self._split(reader, ShardRecords(*shard, ()))
                    )
            self._start_children()
        return dealt

    def position(self) -> Position:
        found: dict[str, dict[str, Any]] = {stream: {} for stream in self._streams}
        with self._changed:
            for (stream, shard), place in self._positions.items():
                reader = self._readers.get((stream, shard))
                found.setdefault(stream, {})[shard] = dict(place if reader is None else reader.position)
        return found

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        with self._changed:
            self._check()
            return any(reader.waiting() or reader.exhausted for reader in self._readers.values())

    def pending_records(self) -> int:
        with self._changed:
            return sum(reader.waiting() for reader in self._readers.values())

    def close(self) -> None:
        with self._changed:
            self._closed = True
            readers = list(self._readers.values())
            for reader in readers:
                reader.stop()
            self._changed.notify_all()
        deadline = time.monotonic() + _JOIN
        self._thread.join(_JOIN)
        for reader in readers:
            reader.join(max(0.1, deadline - time.monotonic()))

    # The caller of these holds the lock.

    def _split(self, reader: ShardReader, records: ShardRecords) -> Split:
        shard = (reader.info.stream, reader.info.shard)
        self._announced.add(shard)
        return Split(records, len(records.records), partition="/".join(shard), last=reader.exhausted)

    def _start_children(self) -> None:
        for shard in [shard for shard, reader in self._readers.items() if reader.exhausted]:
            del self._readers[shard]
            self._positions[shard] = dict(_ENDED)
        self._start_readers()

    def _start_readers(self) -> None:
        for shard, info in self._found.items():
            place = self._positions.get(shard)
            if place is None or shard in self._readers or place == _ENDED or self._closed:
                continue
            parents = [self._positions.get((info.stream, parent)) for parent in info.parents]
            if all(parent is None or parent == _ENDED for parent in parents):
                reader = ShardReader(self._clients, self._client, info, self._options, place, self._changed)
                reader.start()
                self._readers[shard] = reader

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    # ----------------------------------------------------------------------------------------------- discovery

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, self._options.discovery_interval or 0.1):
                    return
            try:
                self._discover(set())
            except LostInputError as error:
                with self._changed:
                    self._error = error
                return
            except ConnectorError as error:
                log.warning("shards are looked up again in %g s: %s", self._options.discovery_interval, error)

    def _discover(self, new: set[str]) -> None:
        """Look up all shards. Those of ``new`` streams are read from the configured position, others from the start."""
        start: dict[str, Any] = {}
        if self._options.initial == "LATEST":
            start = {"at": time.time_ns() // 1_000_000}  # a position that is the same after a restart
        elif self._options.timestamp is not None:
            start = {"at": self._options.timestamp}
        for stream in self._streams:
            shards = {info.shard: info for info in self._list(stream)}
            if not shards:
                raise ConnectorError(f"{self._clients.shown}: stream {stream!r} has no shards")
            with self._changed:
                for shard, info in shards.items():
                    self._found[stream, shard] = info
                    self._positions.setdefault((stream, shard), dict(start) if stream in new else {})
                self._forget(stream, shards)
                self._start_readers()

    def _forget(self, stream: str, shards: Mapping[str, ShardInfo]) -> None:
        """Forget shards that no longer exist, because all of their records have expired."""
        for place in [place for place in self._positions if place[0] == stream and place[1] not in shards]:
            if self._positions[place] != _ENDED and place not in self._readers:
                raise LostInputError(
                    f"{self._clients.shown}: shard {place[1]} of stream {stream!r} has expired before it was read to "
                    "its end: increase the retention period of the stream. To go on without its records, start without "
                    "state, or from a later savepoint"
                )
            if place not in self._readers:
                del self._positions[place]
                self._found.pop(place, None)

    def _list(self, stream: str) -> list[ShardInfo]:
        found: list[ShardInfo] = []
        request: dict[str, Any] = {"StreamName": stream}
        while True:
            answer = self._clients.call(self._client.list_shards, f"listing the shards of {stream!r}", **request)
            for shard in answer["Shards"]:
                keys = shard["HashKeyRange"]
                parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
                found.append(
                    ShardInfo(
                        stream,
                        shard["ShardId"],
                        int(keys["StartingHashKey"]),
                        int(keys["EndingHashKey"]),
                        tuple(parent for parent in parents if parent),
                    )
                )
            if not answer.get("NextToken"):
                return found
            request = {"NextToken": answer["NextToken"]}
