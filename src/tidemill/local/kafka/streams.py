"""The unbounded Kafka sources of a job: what each epoch reads from them.

librdkafka fetches records in the background. An epoch takes the records that have arrived, up to its limit, and holds
them in memory until it is committed, because it may run again. The offsets after them are its positions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from tidemill.checkpoint.names import SPARK
from tidemill.config import StateRecoveryOptions
from tidemill.connectors.kafka.broker_queries import starting_offsets
from tidemill.connectors.kafka.library_broker import LibraryBroker
from tidemill.connectors.kafka.offsets import KafkaTopicPartition
from tidemill.connectors.kafka.positions import Offsets, from_spark_offsets, spark_offsets
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.connectors.kafka.topic_reader import TopicReader, columns_schema
from tidemill.connectors.kafka.tracker import KafkaTracker
from tidemill.errors import ConnectorError, GraphError
from tidemill.graph.plan import JobPlan
from tidemill.local.frames import LocalFrame
from tidemill.local.kafka.entries import Entries
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.launch import Launch

__all__ = ["KafkaStreams"]

log = logging.getLogger(__name__)

#: The seconds between two searches for new partitions.
_DISCOVERY_SECONDS: Final = 1.0
#: The most time that an epoch spends on collecting records before it runs.
_COLLECT_SECONDS: Final = 1.0


@dataclass
class _Stream:
    """One source."""

    # configuration
    uid: str
    source: KafkaSource
    # transient
    tracker: KafkaTracker
    broker: LibraryBroker
    reader: TopicReader | None = None
    waiting: pa.RecordBatch | None = None
    looked: float = field(default_factory=time.monotonic)
    # checkpointed
    positions: Offsets = field(default_factory=dict)

    @property
    def line(self) -> str:
        return spark_offsets(self.positions)


class KafkaStreams:
    """The sources of one execution of a job. Call :meth:`open` first. Not thread-safe."""

    def __init__(self, launch: Launch, sources: Mapping[int, KafkaSource]) -> None:
        """``sources`` are keyed by chain."""
        self._launch = launch
        self._sources = dict(sources)
        self._streams: dict[int, _Stream] = {}
        self._entries: Entries | None = None
        self._coordinator: Coordinator | None = None
        #: Whether the starting positions are stored. The first epoch stores them, even if it has no records.
        self._begun = True

    def __bool__(self) -> bool:
        return bool(self._sources)

    def schemas(self) -> dict[int, bytes]:
        """Return the Arrow schema of each source."""
        return {
            chain: columns_schema(source.decoder.columns).serialize().to_pybytes()
            for chain, source in self._sources.items()
        }

    def open(self, coordinator: Coordinator, elsewhere: Collection[str]) -> None:
        """Resume after the last committed epoch. ``elsewhere`` are the uids of sources with positions of their own.

        Raises :class:`~tidemill.errors.LostInputError` if records that must be read no longer exist.
        """
        self._coordinator = coordinator
        if not self._sources:
            return
        plan: JobPlan = self._launch.plan
        uids = {chain: plan.chains[chain].head.uid for chain in self._sources}
        stored = coordinator.head.spark
        if stored is None and coordinator.head.epoch > 0 and any(True for _ in coordinator.storage.list(SPARK)):
            raise GraphError(
                "the job was stored on Spark before its first batch, when only Spark knows where its Kafka sources "
                "start: take the savepoint after the first records were read"
            )
        allowed = self._launch.configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE)
        entries = Entries([*uids.values()], stored, allow_non_restored=allowed, elsewhere=elsewhere)
        self._entries = entries
        for chain, source in self._sources.items():
            uid, broker = uids[chain], LibraryBroker(source)
            stream = _Stream(uid, source, KafkaTracker(source, broker.__enter__), broker)
            self._streams[chain] = stream
            line = entries.lines[uid]
            if line is None:
                stream.positions = starting_offsets(broker, source)
                self._begun = False
            else:
                broker.partitions()  # raises if a topic does not exist
                stream.positions = from_spark_offsets(stream.tracker.revised(line, entries.topics.get(uid, {})))
                self._begun = self._begun and stream.line == line
            stream.reader = TopicReader(source, stream.positions)
            self._discover(stream)

    def available(self) -> bool:
        """Whether an epoch would read something, or has to store the starting positions."""
        found = [self._has_records(stream) for stream in self._streams.values()]  # asks all of them
        return not self._begun or any(found)

    def add_to(self, inputs: EpochInput, limit: EpochLimit) -> EpochInput:
        """Add the records that have arrived to the input of an epoch: from each source, at most the limit."""
        return self._with(inputs, {chain: self._collect(stream, limit) for chain, stream in self._streams.items()})

    def add_nothing_to(self, inputs: EpochInput) -> EpochInput:
        """Extend the input of an epoch that reads no records, because the job ends."""
        inputs = replace(inputs, ended=[*inputs.ended, *self._streams])
        return self._with(inputs, {chain: [] for chain in self._streams})

    def committed(self) -> None:
        """Report positions to the consumer groups, after an epoch has been committed."""
        self._begun = True
        if self._coordinator is None:
            return
        head = self._coordinator.head
        for stream in self._streams.values():
            stream.tracker.committed(stream.line, checkpoint=head.slot in head.checkpoints)

    def close(self) -> None:
        """Close all connections."""
        for stream in self._streams.values():
            try:
                stream.tracker.close()
                if stream.reader is not None:
                    stream.reader.close()
            except Exception as error:
                log.warning("the connections of the source with uid %r were not closed properly: %s", stream.uid, error)
        self._streams.clear()

    def _with(self, inputs: EpochInput, batches: Mapping[int, list[pa.RecordBatch]]) -> EpochInput:
        if self._entries is None or self._coordinator is None:
            return inputs
        frames = []
        for chain, read in batches.items():
            frames.append(LocalFrame(chain, (_again(read),)))
        lines = {stream.uid: stream.line for stream in self._streams.values()}
        topics = {stream.uid: stream.tracker.ids(stream.line) for stream in self._streams.values()}
        pending = {stream.uid: _lag(stream) for stream in self._streams.values()}
        return replace(
            inputs,
            frames=(*inputs.frames, *frames),
            partitions={**inputs.partitions, **dict.fromkeys(batches, 1)},
            spark=self._entries.after(lines, topics, self._coordinator.lineage),
            pending={**inputs.pending, **pending},
        )

    def _has_records(self, stream: _Stream) -> bool:
        if stream.waiting is None and stream.reader is not None:
            if time.monotonic() - stream.looked >= _DISCOVERY_SECONDS:
                try:
                    self._discover(stream)
                except ConnectorError as error:  # records of known partitions may still be readable
                    log.warning("new partitions of the source with uid %r are not known: %s", stream.uid, error)
                    stream.looked = time.monotonic()
            stream.waiting = self._take(stream, 1 << 30)
        return stream.waiting is not None

    def _collect(self, stream: _Stream, limit: EpochLimit) -> list[pa.RecordBatch]:
        """Return the records that have arrived, and update the positions of the stream."""
        most, taken, read = _max_records(stream.source, limit), 0, []
        until = time.monotonic() + _COLLECT_SECONDS
        while taken < most:
            if stream.waiting is not None:
                batch, stream.waiting = stream.waiting, None
            elif (found := self._take(stream, most - taken)) is not None:
                batch = found
            else:
                break
            if batch.num_rows > most - taken:
                stream.waiting = batch.slice(most - taken)
                batch = batch.slice(0, most - taken)
            _advance(stream.positions, batch)
            read.append(batch)
            taken += batch.num_rows
            if time.monotonic() > until:
                break
        return read

    def _take(self, stream: _Stream, most: int) -> pa.RecordBatch | None:
        """Return records that have arrived. If the next ones were deleted, the source decides whether to skip them."""
        if stream.reader is None:
            return None
        try:
            return stream.reader.take(most)
        except ConnectorError:
            line = stream.tracker.revised(stream.line, stream.tracker.ids(stream.line))  # raises if it may not
            if line == stream.line:
                raise
            log.warning("the source with uid %r skips deleted records, from %s to %s", stream.uid, stream.line, line)
            stream.reader.close()
            stream.positions = from_spark_offsets(line)
            stream.reader = TopicReader(stream.source, stream.positions)
            return None

    def _discover(self, stream: _Stream) -> None:
        """Read new partitions from their beginning."""
        stream.looked = time.monotonic()
        known = stream.broker.partitions()
        new = [each for each in known if each not in stream.positions]
        if new and stream.reader is not None:
            earliest = stream.broker.facts(new).earliest
            log.info("the source with uid %r reads new partitions: %s", stream.uid, ", ".join(map(str, earliest)))
            stream.positions |= earliest
            stream.reader.add(earliest)


def _again(batches: list[pa.RecordBatch]) -> Any:
    def read() -> Iterator[pa.RecordBatch]:
        return iter(batches)

    return read


def _max_records(source: KafkaSource, limit: EpochLimit) -> int:
    most = source.max_records_per_epoch
    return limit.records if most is None else min(most, limit.records)


def _lag(stream: _Stream) -> int:
    waiting = 0 if stream.waiting is None else stream.waiting.num_rows
    return waiting + (0 if stream.reader is None else stream.reader.lag())


def _advance(positions: Offsets, batch: pa.RecordBatch) -> None:
    """Set the positions after a batch: the offsets of a partition are ascending."""
    grouped = pa.table(batch.select(["topic", "partition", "offset"])).group_by(["topic", "partition"])
    for row in grouped.aggregate([("offset", "max")]).to_pylist():
        positions[KafkaTopicPartition(row["topic"], row["partition"])] = row["offset_max"] + 1
