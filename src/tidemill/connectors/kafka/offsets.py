"""The starting and stopping offsets of a Kafka source."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["KafkaOffsetResetStrategy", "KafkaOffsetsInitializer", "KafkaTopicPartition"]


class KafkaTopicPartition(NamedTuple):
    """One partition of a topic.

    >>> KafkaTopicPartition("clicks", 3)
    KafkaTopicPartition(topic='clicks', partition=3)
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class KafkaOffsetResetStrategy(enum.Enum):
    """What to do if there is no starting offset, or if it is out of range."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetPlace(enum.Enum):
    """The kinds of offsets that an initializer can specify."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Specifies an offset in each partition: the starting offset (inclusive), or the stopping offset (exclusive).

    Offsets are looked up once, when the job first starts.

    >>> KafkaOffsetsInitializer.offsets({KafkaTopicPartition("clicks", 0): 17})
    KafkaOffsetsInitializer.offsets(clicks-0: 17)
    """

    place: OffsetPlace
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    time: int | None = None
    by_partition: tuple[tuple[KafkaTopicPartition, int], ...] = ()

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first available offset."""
        return KafkaOffsetsInitializer(OffsetPlace.EARLIEST, KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """The offset after the last record."""
        return KafkaOffsetsInitializer(OffsetPlace.LATEST, KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """The committed offsets of the source's consumer group; the strategy applies to partitions without one.

        With :attr:`KafkaOffsetResetStrategy.NONE`, a partition without a committed offset is an error.
        """
        return KafkaOffsetsInitializer(OffsetPlace.COMMITTED, offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record whose timestamp is not before this (ms since 1970); the end of the partition if none is."""
        if timestamp < 0:
            raise ValueError(f"the timestamp, in milliseconds since 1970, must not be negative: {timestamp}")
        return KafkaOffsetsInitializer(OffsetPlace.TIMESTAMP, KafkaOffsetResetStrategy.LATEST, timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """The given offsets; the strategy applies to partitions without one, and to offsets that do not exist."""
        negative = next((item for item in offsets.items() if item[1] < 0), None)
        if negative is not None:
            raise ValueError(f"the offset of {KafkaTopicPartition(*negative[0])} must not be negative: {negative[1]}")
        named = sorted((KafkaTopicPartition(*partition), offset) for partition, offset in offsets.items())
        return KafkaOffsetsInitializer(OffsetPlace.OFFSETS, offset_reset_strategy, None, tuple(named))

    def __repr__(self) -> str:
        if self.place is OffsetPlace.TIMESTAMP:
            named = str(self.time)
        elif self.place is OffsetPlace.OFFSETS:
            named = ", ".join(f"{partition}: {offset}" for partition, offset in self.by_partition)
        else:
            named = ""
        return f"KafkaOffsetsInitializer.{self.place.value}({named})"
