"""Flink's older Kafka source, as an interface to :class:`~tidemill.connectors.kafka.source.KafkaSource`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidemill.common.serialization import DeserializationSchema
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from tidemill.connectors.kafka.source import COMMIT_ON_CHECKPOINT, RESET, KafkaSource
from tidemill.connectors.sources import Source
from tidemill.datastream.functions.basic import SourceFunction
from tidemill.python_versions import Self

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaConsumerBase"]

#: Prefix of properties that configure Flink's consumer itself, such as ``flink.poll-timeout``.
_OF_FLINK: Final = "flink."


class FlinkKafkaConsumerBase(SourceFunction, Source):
    """The settings that all older Kafka sources of Flink have."""

    bounded = False

    def __init__(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        deserialization_schema: DeserializationSchema[Any],
        properties: Mapping[str, str],
    ) -> None:
        self._topics = topics
        self._schema = deserialization_schema
        self._properties = {name: value for name, value in properties.items() if not name.startswith(_OF_FLINK)}
        self._start: KafkaOffsetsInitializer | None = None
        self._commits = True
        self.resolved()  # raises an error for settings that cannot be used, while the caller's line is known

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Set whether positions are committed to the consumer group after checkpoints; by default they are."""
        self._commits = commit_on_checkpoints
        return self

    def set_start_from_earliest(self) -> Self:
        """Start at the first available record of each partition."""
        return self._start_from(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> Self:
        """Start after the last record of each partition."""
        return self._start_from(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Start at the first record whose timestamp is not before this (ms since 1970), which must have passed."""
        if startup_offsets_timestamp > time.time() * 1000:
            raise ValueError(f"the timestamp to start from must not be in the future: {startup_offsets_timestamp}")
        return self._start_from(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        """Start at the offsets that the consumer group has committed, which is the default.

        The property ``auto.offset.reset``, by default ``latest``, applies to partitions without a committed offset, and
        to all partitions if there is no ``group.id``.
        """
        self._start = None
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Accepted without effect: partitions of topics that are no longer read are ignored."""
        return self

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._schema.get_produced_type()

    def resolved(self) -> KafkaSource:
        """Return the source with these settings."""
        builder = KafkaSource.builder().set_properties(self._properties).set_value_only_deserializer(self._schema)
        if isinstance(self._topics, re.Pattern):
            builder.set_topic_pattern(self._topics.pattern)
        else:
            builder.set_topics(*([self._topics] if isinstance(self._topics, str) else self._topics))
        if not self._commits:
            builder.set_property(COMMIT_ON_CHECKPOINT, "false")
        return builder.set_starting_offsets(self._group_offsets() if self._start is None else self._start).build()

    def _start_from(self, start: KafkaOffsetsInitializer) -> Self:
        self._start = start
        return self

    def _group_offsets(self) -> KafkaOffsetsInitializer:
        given = self._properties.get(RESET, "latest").lower()
        if "group.id" in self._properties:
            return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[given.upper()])
        if given == "none":
            raise ValueError(f"without a group.id there are no committed offsets to start from, and {RESET} is none")
        return KafkaOffsetsInitializer.earliest() if given == "earliest" else KafkaOffsetsInitializer.latest()


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads the values of Kafka topics; use it with ``env.add_source``. New programs use ``KafkaSource``.

    ``topics`` is a topic, a list of topics or, which PyFlink does not have, a compiled pattern: Kafka matches it as a
    Java regular expression. Records have the same guarantees and timestamps as those of a ``KafkaSource``.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> properties = {"bootstrap.servers": "localhost:9092", "group.id": "shop"}
    >>> FlinkKafkaConsumer("clicks", SimpleStringSchema(), properties).set_start_from_earliest().resolved()
    KafkaSource(topics clicks at localhost:9092, from earliest(), {'group.id': 'shop'})
    """
