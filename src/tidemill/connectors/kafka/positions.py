"""Kafka offsets: resolves initializers, and checks whether positions can still be read. It sends no requests itself."""

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
    """The responses of a broker: the first available offset of each partition, and the offset of its next record.

    ``at_time`` contains the offset of the first record at or after the initializer's time, ``committed`` the committed
    offset of the group. Partitions without such an offset are missing.
    """

    earliest: Mapping[KafkaTopicPartition, int]
    latest: Mapping[KafkaTopicPartition, int]
    at_time: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)
    committed: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)


def chosen(subscription: Subscription, known: Mapping[str, Sequence[int]], servers: str) -> list[KafkaTopicPartition]:
    """Return the partitions that a source reads, of the topics in the broker (for a pattern, of those that match).

    Raises :class:`ConfigurationError` for a topic or partition that does not exist.
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
    return "; create it first, or check its name and whether this user has access to it"


def _numbers(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(partitions)[:20])) + (", ..." if len(partitions) > 20 else "")


def resolve(
    initializer: KafkaOffsetsInitializer, partitions: Sequence[KafkaTopicPartition], facts: Facts, group: str | None
) -> Offsets:
    """Resolve an initializer to an offset in each partition.

    The offset may not be available; see :func:`readable`. Raises :class:`ConfigurationError` for a partition for which
    neither the initializer nor its reset strategy defines an offset.
    """
    given = dict(initializer.by_partition)
    unknown = sorted(given.keys() - set(partitions))
    if unknown:
        raise ConfigurationError(f"an offset is set for {unknown[0]}, which the source does not read")
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
                f"{whose} for {partition}: set one, or use a KafkaOffsetResetStrategy other than NONE"
            )
        found[partition] = named
    return found


def readable(wanted: Offsets, facts: Facts, strategy: KafkaOffsetResetStrategy) -> Offsets:
    """Return the offsets to start from. The strategy replaces an offset that is not, or no longer, available.

    Raises :class:`LostInputError`, with the required and the available offsets, if the strategy is NONE.
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
    """Return the positions to resume from: those of the job, unless records were deleted before it read them.

    In that case the strategy decides. If the strategy is NONE, :class:`LostInputError` is raised, with the required and
    the available offsets, and also for a partition that no longer exists. ``others`` are topics that were created again
    under the name of a topic that the job has read: none of their records has been read.
    """
    named = sorted(partition for partition in positions if partition.topic in others and partition in facts.earliest)
    if named and strategy is KafkaOffsetResetStrategy.NONE:
        raise LostInputError(
            f"topic {named[0].topic!r} was deleted and created again after the job read it up to offset "
            f"{positions[named[0]]} of partition {named[0].partition}. {_choice()}"
        )
    positions = {**positions, **{each: _by_strategy(strategy, each, facts) or 0 for each in named}}
    gone = sorted(partition for partition in positions if partition not in facts.earliest)
    if gone and strategy is KafkaOffsetResetStrategy.NONE:
        raise LostInputError(
            f"{gone[0]} no longer exists; the job has read it up to offset {positions[gone[0]]}. {_choice()}"
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
            f"offset {wanted} of {partition} is required, but the topic ends at offset {latest}: it was deleted and "
            f"created again, or its log was truncated. {_choice()}"
        )
    return (
        f"offset {wanted} of {partition} is required, but the first available one is {earliest}: "
        f"{earliest - wanted:,} records were deleted before they were read. {_choice()}"
    )


def _choice() -> str:
    return f"To continue without the missing records, set the property {RESET} of the source to earliest or latest"


def spark_offsets(offsets: Mapping[KafkaTopicPartition, int]) -> str:
    """Format offsets as Spark accepts and logs them: ``{"clicks":{"0":17}}``."""
    by_topic: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        by_topic.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(by_topic, separators=(",", ":"))


def from_spark_offsets(text: str) -> Offsets:
    """Parse the output of :func:`spark_offsets`, or an entry in Spark's log."""
    by_topic: dict[str, dict[str, int]] = json.loads(text)
    return {
        KafkaTopicPartition(topic, int(number)): offset
        for topic, offsets in by_topic.items()
        for number, offset in offsets.items()
    }
