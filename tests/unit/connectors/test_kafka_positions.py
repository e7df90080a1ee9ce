"""Which offsets a source begins at, and whether its positions can still be read: decisions over what a broker tells."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidemill.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from tidemill.connectors.kafka.positions import (
    Facts,
    chosen,
    from_spark_offsets,
    readable,
    resolve,
    resumed,
    spark_offsets,
)
from tidemill.connectors.kafka.source import Subscription
from tidemill.errors import ConfigurationError, LostInputError
from tidemill.spark.kafka.jars import wanted_modules

ZERO, ONE = KafkaTopicPartition("clicks", 0), KafkaTopicPartition("clicks", 1)
FACTS = Facts(earliest={ZERO: 10, ONE: 0}, latest={ZERO: 20, ONE: 5}, at_time={ZERO: 15}, committed={ONE: 3})
EARLIEST, LATEST, NONE = (KafkaOffsetResetStrategy[name] for name in ("EARLIEST", "LATEST", "NONE"))


# ------------------------------------------------------------------------------------------------------- what is there

KNOWN = {"clicks": [1, 0], "orders": [0]}


def test_all_partitions_of_a_topic_are_read_or_those_that_are_named() -> None:
    def read(subscription: Subscription) -> Sequence[KafkaTopicPartition]:
        return chosen(subscription, KNOWN, "broker:9092")

    assert read(Subscription(topics=("clicks",))) == [ZERO, ONE]
    assert read(Subscription(partitions=(ONE,))) == [ONE]
    assert read(Subscription(pattern=".*")) == [ZERO, ONE, KafkaTopicPartition("orders", 0)]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'click' is not known to broker:9092; did you mean 'clicks'\?"):
        chosen(Subscription(topics=("click",)), KNOWN, "broker:9092")
    with pytest.raises(ConfigurationError, match="'xyz' is not known to broker:9092; create it first"):
        chosen(Subscription(topics=("xyz",)), KNOWN, "broker:9092")
    with pytest.raises(ConfigurationError, match="'clicks' at broker:9092 has no partition 7, only 0, 1"):
        chosen(Subscription(partitions=(KafkaTopicPartition("clicks", 7),)), KNOWN, "broker:9092")


# ------------------------------------------------------------------------------------------------------------ beginning


def test_an_initializer_stands_for_an_offset_in_each_partition() -> None:
    def found(initializer: KafkaOffsetsInitializer) -> list[int]:
        return list(resolve(initializer, [ZERO, ONE], FACTS, "shop").values())

    at = KafkaOffsetsInitializer
    assert found(at.earliest()) == [10, 0]
    assert found(at.latest()) == [20, 5]
    assert found(at.timestamp(1)) == [15, 5], "where all is older it is the end"
    assert found(at.committed_offsets(EARLIEST)) == [10, 3]
    assert found(at.committed_offsets(LATEST)) == [20, 3]
    assert found(at.offsets({ZERO: 12})) == [12, 3], "where none is named it is what the group has committed"
    assert found(at.offsets({ONE: 4}, LATEST)) == [20, 4], "or else as the strategy says"
    with pytest.raises(ConfigurationError, match="consumer group 'shop' has committed no offset for clicks-0"):
        found(at.committed_offsets())
    with pytest.raises(ConfigurationError, match="an offset is set for other-0, which the source does not read"):
        found(at.offsets({KafkaTopicPartition("other", 0): 1}))


def test_an_offset_that_is_not_there_is_replaced_or_refused() -> None:
    assert readable({ZERO: 10, ONE: 5}, FACTS, NONE) == {ZERO: 10, ONE: 5}, "behind the last one is there"
    assert readable({ZERO: 9, ONE: 6}, FACTS, EARLIEST) == {ZERO: 10, ONE: 0}
    assert readable({ZERO: 9, ONE: 6}, FACTS, LATEST) == {ZERO: 20, ONE: 5}
    deleted = "offset 4 of clicks-0 is required, but the first available one is 10: 6 records were deleted"
    with pytest.raises(LostInputError, match=f"{deleted}.*auto.offset.reset"):
        readable({ZERO: 4}, FACTS, NONE)
    with pytest.raises(LostInputError, match="offset 6 of clicks-1 is required, but the topic ends at offset 5"):
        readable({ONE: 6}, FACTS, NONE)


def test_positions_of_partitions_that_are_gone_are_refused_unless_all_is_well_with_that() -> None:
    gone = KafkaTopicPartition("gone", 0)
    with pytest.raises(LostInputError, match="gone-0 no longer exists; the job has read it up to offset 7"):
        resumed({ZERO: 12, gone: 7}, FACTS, NONE)
    assert resumed({ZERO: 2, gone: 7}, FACTS, EARLIEST) == {ZERO: 10, gone: 7}


def test_a_topic_that_only_has_the_name_of_another_is_refused_or_read_from_the_beginning() -> None:
    with pytest.raises(LostInputError, match=r"'clicks' was deleted and created again .* offset 12 of partition 0"):
        resumed({ZERO: 12}, FACTS, NONE, {"clicks"})
    assert resumed({ZERO: 12, ONE: 4}, FACTS, EARLIEST, {"clicks"}) == {ZERO: 10, ONE: 0}
    assert resumed({ZERO: 12}, FACTS, LATEST, {"clicks"}) == {ZERO: 20}


# -------------------------------------------------------------------------------------------------------------- formats


def test_offsets_are_written_as_spark_writes_them() -> None:
    offsets = {ONE: 5, ZERO: 17, KafkaTopicPartition("a.b-c", 11): 0}
    text = spark_offsets(offsets)
    assert text == '{"a.b-c":{"11":0},"clicks":{"0":17,"1":5}}'
    assert from_spark_offsets(text) == offsets


def test_a_connector_is_never_newer_than_spark() -> None:
    wanted = wanted_modules("4.3.1", "2.13")
    assert 'name="spark-sql-kafka-0-10_2.13" rev="[4.0,4.3.1]"' in wanted
    assert 'module="spark-token-provider-kafka-0-10_2.13" rev="[4.0,4.3.1]"' in wanted
