"""Kafka sources on Spark: the DataFrame of a source, and its positions in Spark's offset log.

Spark logs, for each batch, the offset at which each partition's part of it ends; a job's manifest has a copy. So a
source goes on where the last committed epoch ended, whatever its consumer group says.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from tidemill.datastream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, Place
from tidemill.datastream.connectors.kafka.properties import SECRET_NAMES
from tidemill.datastream.connectors.kafka.source import CLIENT_ID_PREFIX, KafkaSource
from tidemill.errors import ConfigurationError, ConnectorError, JobExecutionError
from tidemill.spark.kafka_broker import Broker
from tidemill.spark.kafka_jars import provide_connector
from tidemill.spark.kafka_positions import (
    Offsets,
    from_spark_offsets,
    readable,
    resolve,
    resumed,
    spark_offsets,
)
from tidemill.spark.locations import HEADER_LINES, NO_OFFSET, Layout
from tidemill.spark.unlogged import unlogged

log = logging.getLogger(__name__)

#: Which options Spark leaves out where it prints a plan; by itself it knows of passwords and tokens, not of keys.
_REDACTED: Final = "spark.sql.redaction.options.regex"
_SECRET_OPTIONS: Final = rf"(?i)^kafka\..*(?:{SECRET_NAMES})"

#: How often consumer groups are told of positions, at most: that of Kafka's own consumers. It takes some 0.3 ms for
#: each partition.
_TELL_SECONDS: Final = 5.0
#: How long the answer is waited for when the query ends.
_GOODBYE_SECONDS: Final = 2.0


def check_source(session: SparkSession, source: KafkaSource) -> None:
    """Raise, before a job starts, :class:`ConnectorError` if nobody answers at the source's address,
    :class:`ConfigurationError` if what it reads is not there."""
    with Broker(session, source) as broker:
        broker.partitions()


def kafka_frame(session: SparkSession, source: KafkaSource, max_records: int, *, resuming: bool) -> DataFrame:
    """The DataFrame of a source, with the columns that its decoder needs.

    Where it begins, and ends if it does, is looked up now. With ``resuming`` Spark has a position for it, which counts.
    """
    provide_connector(session)
    _redact_plans(session)
    options = reader_options(source)
    if source.ends:
        starting, stopping = bounds(session, source)
        reader: Any = session.read
        options |= {"startingOffsets": spark_offsets(starting), "endingOffsets": spark_offsets(stopping)}
    else:
        reader = session.readStream
        options["startingOffsets"] = "earliest" if resuming else _beginning(session, source)
        options["maxOffsetsPerTrigger"] = str(source.max_records_per_epoch or max_records)
    with unlogged():
        reader = reader.format("kafka").options(**options)
    frame: DataFrame = reader.load()
    columns = {"timestamp": F.unix_millis("timestamp").alias("timestamp")}
    return frame.select(*(columns.get(name, F.col(name)) for name in source.decoder.columns))


def _redact_plans(session: SparkSession) -> None:
    known = session.conf.get(_REDACTED) or ""
    if _SECRET_OPTIONS not in known:
        session.conf.set(_REDACTED, f"{known}|{_SECRET_OPTIONS}" if known else _SECRET_OPTIONS)


def reader_options(source: KafkaSource) -> dict[str, str]:
    """Spark's options for a source, apart from where it begins and ends."""
    options = {f"kafka.{name}": value for name, value in source.client_properties().items()}
    if CLIENT_ID_PREFIX in source.properties:
        options["kafka.client.id"] = source.properties[CLIENT_ID_PREFIX]
    what = source.subscription
    if what.pattern is not None:
        options["subscribePattern"] = f"^(?:{what.pattern})$"  # Spark takes any part of a name for a match, Flink all
    elif what.topics:
        options["subscribe"] = ",".join(what.topics)
    else:
        numbers: dict[str, list[int]] = {}
        for partition in what.partitions:
            numbers.setdefault(partition.topic, []).append(partition.partition)
        options["assign"] = json.dumps(numbers)
    if "headers" in source.decoder.columns:
        options["includeHeaders"] = "true"
    options["failOnDataLoss"] = "true" if source.reset is KafkaOffsetResetStrategy.NONE else "false"
    return options


def _beginning(session: SparkSession, source: KafkaSource) -> str:
    initializer = source.starting
    if initializer.place in (Place.EARLIEST, Place.LATEST):
        return str(initializer.place.value)
    with Broker(session, source) as broker:
        offsets = _starting(broker, source)
    return spark_offsets(offsets) if offsets else "earliest"  # no topic matches the pattern yet


def _starting(broker: Broker, source: KafkaSource) -> Offsets:
    partitions = broker.partitions()
    facts = broker.facts(partitions, source.starting)
    return readable(resolve(source.starting, partitions, facts, source.group_id), facts, source.starting.reset)


def bounds(session: SparkSession, source: KafkaSource) -> tuple[Offsets, Offsets]:
    """Where a source that ends begins and ends."""
    stopping: KafkaOffsetsInitializer = source.stopping or KafkaOffsetsInitializer.latest()
    with Broker(session, source) as broker:
        starting = _starting(broker, source)
        facts = broker.facts(list(starting), stopping)
        ends = resolve(stopping, list(starting), facts, source.group_id)
    for partition, end in ends.items():
        if end > facts.latest[partition]:
            raise ConfigurationError(
                f"the source is to stop at offset {end} of {partition}, which ends at {facts.latest[partition]}: it "
                "can only stop at an offset that exists when the job starts"
            )
    return starting, {partition: max(end, starting[partition]) for partition, end in ends.items()}


class KafkaPositions:
    """The positions of a query's Kafka sources, while it runs."""

    def __init__(self, session: SparkSession, sources: Mapping[str, KafkaSource], layout: Layout) -> None:
        """``sources`` are by uid."""
        self._session = session
        self._sources = sources
        self._lines = {uid: HEADER_LINES + layout[uid][0][0] for uid in sources}
        self._brokers: dict[str, Broker] = {}
        self._topics: dict[str, dict[str, str]] = {}
        self._last: str | None = None
        self._untold: str | None = None
        self._told_at = -_TELL_SECONDS

    @contextmanager
    def named_loss(self) -> Iterator[None]:
        """While the block runs the query: if it fails for want of records that were deleted, raise
        :class:`LostInputError`, which says so. Afterwards all connections are closed."""
        try:
            yield
        except JobExecutionError:
            if self._last is not None:
                with suppress(ConnectorError):
                    self.revised(self._last, {"topics": self._topics})
            raise
        finally:
            try:
                self._say_goodbye()
            except Exception as error:
                log.warning("connections to Kafka were not closed as they should: %s", error)

    def _say_goodbye(self) -> None:
        if self._untold is not None:
            self._tell(self._untold, seconds=_GOODBYE_SECONDS)
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    def revised(self, offsets: str, stored: Mapping[str, Any]) -> str:
        """An entry of Spark's offset log from which the query can go on; ``stored`` is what was stored with it.

        It is the same one, unless a source reads something else now, or records have been deleted and it is to go on
        without them. Raises :class:`LostInputError` if it is not.
        """
        self._last = offsets
        lines = offsets.split("\n")
        for uid, source in self._sources.items():
            line = self._lines[uid]
            if lines[line] != NO_OFFSET:
                stored_positions = from_spark_offsets(lines[line])
                known: dict[str, str] = (stored.get("topics") or {}).get(uid, {})
                broker = self._broker(uid)
                positions = {each: offset for each, offset in stored_positions.items() if broker.is_read(each)}
                for each in stored_positions.keys() - positions.keys():
                    log.warning("%s is not read any more: its position %d is dropped", each, stored_positions[each])
                self._topics[uid] = broker.topic_ids({partition.topic for partition in positions})
                others = {topic for topic, name in known.items() if self._topics[uid].get(topic, name) != name}
                begun = resumed(positions, broker.facts(list(positions)), source.reset, others)
                if begun != stored_positions:
                    lines[line] = spark_offsets(begun)
        return "\n".join(lines)

    def topics(self, offsets: str) -> dict[str, dict[str, str]]:
        """Kafka's own ids of the topics in an entry of the log, by the uids of the sources: a topic that is deleted
        and created again has another one."""
        lines = offsets.split("\n")
        for uid, line in self._lines.items():
            known = self._topics.setdefault(uid, {})
            named = set() if lines[line] == NO_OFFSET else set(json.loads(lines[line]))
            if named - known.keys():
                known |= self._broker(uid).topic_ids(named - known.keys())
        return {uid: dict(known) for uid, known in self._topics.items()}

    def committed(self, offsets: str, *, checkpoint: bool) -> None:
        """An epoch that ends at this entry of the log is committed.

        If it is a checkpoint, the sources' consumer groups are told, for those who watch them; not oftener than every
        few seconds, and of the last one at the end.
        """
        self._last = offsets
        if not checkpoint or not any(source.commits_offsets for source in self._sources.values()):
            return
        self._untold = offsets
        if time.monotonic() - self._told_at >= _TELL_SECONDS:
            self._tell(offsets)

    def _tell(self, offsets: str, seconds: float = 0) -> None:
        lines = offsets.split("\n")
        for uid, source in self._sources.items():
            if source.commits_offsets and lines[self._lines[uid]] != NO_OFFSET:
                self._broker(uid).commit(from_spark_offsets(lines[self._lines[uid]]), seconds=seconds)
        self._untold, self._told_at = None, time.monotonic()

    def _broker(self, uid: str) -> Broker:
        if uid not in self._brokers:
            self._brokers[uid] = Broker(self._session, self._sources[uid])
        return self._brokers[uid]
