"""Reads a Kafka source with Spark: Spark's options, the starting offsets, and the stopping offsets if it is bounded."""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from tidemill.connectors.kafka.broker_queries import bounds, starting_offsets
from tidemill.connectors.kafka.offsets import KafkaOffsetResetStrategy, OffsetPlace
from tidemill.connectors.kafka.positions import spark_offsets
from tidemill.connectors.kafka.properties import SECRET_NAMES
from tidemill.connectors.kafka.source import CLIENT_ID_PREFIX, KafkaSource
from tidemill.connectors.kafka.tracker import KafkaTracker
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.spark.frames.source_reader import SourceReader
from tidemill.spark.kafka.broker import Broker
from tidemill.spark.kafka.jars import provide_connector
from tidemill.spark.session.unlogged import unlogged

#: The options that Spark redacts when it prints a plan. By default it redacts passwords and tokens, but not keys.
_REDACTED: Final = "spark.sql.redaction.options.regex"
_SECRET_OPTIONS: Final = rf"(?i)^kafka\..*(?:{SECRET_NAMES})"


class KafkaReader(SourceReader[KafkaSource]):
    """Reads Kafka topics."""

    has_files = False

    def check(self, session: SparkSession) -> None:
        """Raise :class:`ConnectorError` if no broker responds at the source's address, and :class:`ConfigurationError`
        if a topic or partition that it reads does not exist."""
        with Broker(session, self.source) as broker:
            broker.partitions()

    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        """Return a frame with the columns that the source's decoder needs. Its offsets are resolved now."""
        source = self.source
        provide_connector(session)
        _redact_plans(session)
        options = reader_options(source)
        if source.ends:
            with Broker(session, source) as broker:
                starting, stopping = bounds(broker, source)
            reader: Any = session.read
            options |= {"startingOffsets": spark_offsets(starting), "endingOffsets": spark_offsets(stopping)}
        else:
            reader = session.readStream
            options["startingOffsets"] = "earliest" if resuming else _beginning(session, source)
            options["maxOffsetsPerTrigger"] = str(max_records)
        with unlogged():
            reader = reader.format("kafka").options(**options)
        frame: DataFrame = reader.load()
        columns = {"timestamp": F.unix_millis("timestamp").alias("timestamp")}
        return frame.select(*(columns.get(name, F.col(name)) for name in source.decoder.columns))

    def max_records(self, limit: EpochLimit) -> int:
        """Return the limit of an epoch, unless the source itself sets a lower one."""
        most = self.source.max_records_per_epoch
        if most is None:
            return limit.records
        return most if limit.records >= limit.max_records else min(most, limit.records)

    def tracker(self, session: SparkSession) -> KafkaTracker:
        """Return a tracker for the offsets of the source's partitions."""
        return KafkaTracker(self.source, lambda: Broker(session, self.source))


def _redact_plans(session: SparkSession) -> None:
    known = session.conf.get(_REDACTED) or ""
    if _SECRET_OPTIONS not in known:
        session.conf.set(_REDACTED, f"{known}|{_SECRET_OPTIONS}" if known else _SECRET_OPTIONS)


def reader_options(source: KafkaSource) -> dict[str, str]:
    """Return Spark's options for a source, without the starting and stopping offsets."""
    options = {f"kafka.{name}": value for name, value in source.client_properties().items()}
    if CLIENT_ID_PREFIX in source.properties:
        options["kafka.client.id"] = source.properties[CLIENT_ID_PREFIX]
    what = source.subscription
    if what.pattern is not None:
        options["subscribePattern"] = f"^(?:{what.pattern})$"  # Spark matches any part of a name, Flink the whole name
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
    if initializer.place in (OffsetPlace.EARLIEST, OffsetPlace.LATEST):
        return str(initializer.place.value)
    with Broker(session, source) as broker:
        offsets = starting_offsets(broker, source)
    return spark_offsets(offsets) if offsets else "earliest"  # no topic matches the pattern yet
