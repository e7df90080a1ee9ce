"""Where in a topic a Kafka source begins and ends."""

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
    """What to do where there is no offset to begin at, or nothing at that offset."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetPlace(enum.Enum):
    """The kinds of places that an initializer can name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Names an offset in each partition: the one to begin at, or the one to stop before.

    What it names is looked up once, when the job first starts.

    >>> KafkaOffsetsInitializer.offsets({KafkaTopicPartition("clicks", 0): 17})
    KafkaOffsetsInitializer.offsets(clicks-0: 17)
    """

    place: OffsetPlace
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    time: int | None = None
    by_partition: tuple[tuple[KafkaTopicPartition, int], ...] = ()

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first offset that there is."""
        return KafkaOffsetsInitializer(OffsetPlace.EARLIEST, KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record that there is."""
        return KafkaOffsetsInitializer(OffsetPlace.LATEST, KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the source's consumer group has committed; where it has not, the strategy says what to do.

        With :attr:`KafkaOffsetResetStrategy.NONE` a partition without a committed offset is refused.
        """
        return KafkaOffsetsInitializer(OffsetPlace.COMMITTED, offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record that is not older than this (ms since 1970); behind the last one if all are."""
        if timestamp < 0:
            raise ValueError(f"a timestamp is in milliseconds since 1970, and not negative: {timestamp}")
        return KafkaOffsetsInitializer(OffsetPlace.TIMESTAMP, KafkaOffsetResetStrategy.LATEST, timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These; the strategy says what to do in partitions that are not named, or where the offset does not exist."""
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
