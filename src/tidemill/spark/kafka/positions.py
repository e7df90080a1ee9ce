"""Offsets of Kafka: what an initializer stands for, and whether a position can still be read. Decisions over facts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidemill.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetPlace,
)
from tidemill.connectors.kafka.source import RESET, Subscription
from tidemill.errors import ConfigurationError, LostInputError

Offsets: TypeAlias = dict[KafkaTopicPartition, int]


@dataclass(frozen=True)
class Facts:
    """What a broker has told: by partition the first offset there is and the one the next record gets.

    ``at_time`` is the offset of the first record from the initializer's time on, ``committed`` what the group has
    committed; a partition is missing where there is none.
    """

    earliest: Mapping[KafkaTopicPartition, int]
    latest: Mapping[KafkaTopicPartition, int]
    at_time: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)
    committed: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)


def chosen(subscription: Subscription, known: Mapping[str, Sequence[int]], servers: str) -> list[KafkaTopicPartition]:
    """The partitions that a source reads, of the topics that the broker has (for a pattern, of those that match).

    Raises :class:`ConfigurationError` for a topic or partition that is not there.
    """
    wanted = {*subscription.topics, *(partition.topic for partition in subscription.partitions)}
    for topic in sorted(wanted):
        if topic not in known:
            raise ConfigurationError(f"topic {topic!r} is not known to {servers}{_near(topic, known)}")
    for partition in subscription.partitions:
        if partition.partition not in known[partition.topic]:
            raise ConfigurationError(
                f"topic {partition.topic!r} at {servers} has no partition {partition.partition}, "
                f"only {_numbers(known[partition.topic])}"
            )
    if subscription.partitions:
        return list(subscription.partitions)
    topics = subscription.topics or sorted(known)
    return [KafkaTopicPartition(topic, number) for topic in topics for number in sorted(known[topic])]


def _near(topic: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(topic, known, n=3)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return "; create it first, or check its name and whether this user may see it"


def _numbers(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(partitions)[:20])) + (", ..." if len(partitions) > 20 else "")


def resolve(
    initializer: KafkaOffsetsInitializer, partitions: Sequence[KafkaTopicPartition], facts: Facts, group: str | None
) -> Offsets:
    """The offset that an initializer stands for in each partition.

    It may be one that is not there; see :func:`readable`. Raises :class:`ConfigurationError` for a partition where
    neither the initializer nor its reset strategy says anything.
    """
    given = dict(initializer.by_partition)
    unknown = sorted(given.keys() - set(partitions))
    if unknown:
        raise ConfigurationError(f"there is an offset for {unknown[0]}, which the source does not read")
    found: Offsets = {}
    for partition in partitions:
        named = {
            OffsetPlace.EARLIEST: facts.earliest,
            OffsetPlace.LATEST: facts.latest,
            OffsetPlace.TIMESTAMP: facts.at_time,
            OffsetPlace.COMMITTED: facts.committed,
            OffsetPlace.OFFSETS: {**facts.committed, **given},
        }[initializer.place].get(partition)
        if named is None:
            named = _by_strategy(initializer.reset, partition, facts)
        if named is None:
            whose = f"consumer group {group!r} has committed no offset" if group else "there is no offset"
            raise ConfigurationError(
                f"{whose} for {partition}: name one, or give a KafkaOffsetResetStrategy that says where to begin"
            )
        found[partition] = named
    return found


def readable(wanted: Offsets, facts: Facts, strategy: KafkaOffsetResetStrategy) -> Offsets:
    """The offsets to begin at: where one is not there (any more), what the strategy says.

    Raises :class:`LostInputError`, with what was wanted and what is there, if it says nothing.
    """
    begun: Offsets = {}
    for partition, offset in wanted.items():
        if facts.earliest[partition] <= offset <= facts.latest[partition]:
            begun[partition] = offset
            continue
        instead = _by_strategy(strategy, partition, facts)
        if instead is None:
            raise LostInputError(_missing(partition, offset, facts))
        begun[partition] = instead
    return begun


def resumed(
    positions: Offsets, facts: Facts, strategy: KafkaOffsetResetStrategy, others: Collection[str] = ()
) -> Offsets:
    """The positions to go on from: those of the job, unless records were deleted before it read them.

    Then it is as the strategy says. Raises :class:`LostInputError`, with what the job wants and what is there, if it
    says nothing, and for a partition that is gone. ``others`` are topics that only have the names of those the job has
    read: none of their records was.
    """
    named = sorted(partition for partition in positions if partition.topic in others and partition in facts.earliest)
    if named and strategy is KafkaOffsetResetStrategy.NONE:
        raise LostInputError(
            f"topic {named[0].topic!r} was deleted and created again since the job has read it up to offset "
            f"{positions[named[0]]} of partition {named[0].partition}. {_choice()}"
        )
    positions = {**positions, **{each: _by_strategy(strategy, each, facts) or 0 for each in named}}
    gone = sorted(partition for partition in positions if partition not in facts.earliest)
    if gone and strategy is KafkaOffsetResetStrategy.NONE:
        raise LostInputError(
            f"{gone[0]} is not there any more; the job has read it up to offset {positions[gone[0]]}. {_choice()}"
        )
    there = {partition: offset for partition, offset in positions.items() if partition not in gone}
    return {**positions, **readable(there, facts, strategy)}


def _by_strategy(strategy: KafkaOffsetResetStrategy, partition: KafkaTopicPartition, facts: Facts) -> int | None:
    if strategy is KafkaOffsetResetStrategy.EARLIEST:
        return facts.earliest[partition]
    return facts.latest[partition] if strategy is KafkaOffsetResetStrategy.LATEST else None


def _missing(partition: KafkaTopicPartition, wanted: int, facts: Facts) -> str:
    earliest, latest = facts.earliest[partition], facts.latest[partition]
    if wanted > latest:
        return (
            f"offset {wanted} of {partition} is wanted, but the topic ends at offset {latest}: it was deleted and "
            f"created again, or its log was cut. {_choice()}"
        )
    return (
        f"offset {wanted} of {partition} is wanted, but the first one there is {earliest}: "
        f"{earliest - wanted:,} records were deleted before they were read. {_choice()}"
    )


def _choice() -> str:
    return f"To go on without what is missing, set the property {RESET} of the source to earliest or latest"


def spark_offsets(offsets: Mapping[KafkaTopicPartition, int]) -> str:
    """Offsets in the form in which Spark takes and logs them: ``{"clicks":{"0":17}}``."""
    by_topic: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        by_topic.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(by_topic, separators=(",", ":"))


def from_spark_offsets(text: str) -> Offsets:
    """What :func:`spark_offsets` has written, or Spark."""
    by_topic: dict[str, dict[str, int]] = json.loads(text)
    return {
        KafkaTopicPartition(topic, int(number)): offset
        for topic, offsets in by_topic.items()
        for number, offset in offsets.items()
    }
