"""Flink's older Kafka source and sink, and its source with a metadata service: what each of their settings becomes."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Any

import cloudpickle
import pytest

from tidemill.common import Configuration, SimpleStringSchema, Types
from tidemill.connectors.kafka.flink_kafka_producer import FlinkKafkaProducerBase
from tidemill.connectors.kafka.producer_records import KafkaProducerRecord
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors import (
    DeliveryGuarantee,
    DynamicKafkaSource,
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaMetadataService,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
    Semantic,
    SingleClusterTopicMetadataService,
)
from tidemill.datastream.connectors.dynamic_kafka import KafkaStreamSubscriber
from tidemill.datastream.functions import SourceFunction
from tidemill.errors import ConfigurationError

TEXT = SimpleStringSchema()
SERVERS = {"bootstrap.servers": "localhost:9092"}
GROUP = {**SERVERS, "group.id": "shop"}


class TestConsumer:
    def consumer(self, **more: str) -> FlinkKafkaConsumer:
        return FlinkKafkaConsumer("clicks", TEXT, {**GROUP, **{key.replace("_", "."): more[key] for key in more}})

    def test_begins_at_the_offsets_of_its_group(self) -> None:
        source = self.consumer().resolved()
        assert source.starting == KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST)
        assert (source.servers, source.subscription.topics, source.bounded) == ("localhost:9092", ("clicks",), False)
        assert source.commits_offsets

    def test_partitions_without_such_offsets_begin_where_the_property_says(self) -> None:
        source = self.consumer(auto_offset_reset="earliest").resolved()
        assert source.starting == KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
        assert source.reset is KafkaOffsetResetStrategy.EARLIEST

    @pytest.mark.parametrize(("given", "place"), [({}, "latest"), ({"auto.offset.reset": "earliest"}, "earliest")])
    def test_without_a_group_the_property_says_where_to_begin(self, given: dict[str, str], place: str) -> None:
        source = FlinkKafkaConsumer(["a", "b"], TEXT, {**SERVERS, **given}).resolved()
        assert source.starting.place.value == place
        assert source.subscription.topics == ("a", "b")

    def test_without_a_group_and_without_a_place_to_begin_it_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"without a group\.id there are no committed offsets"):
            FlinkKafkaConsumer("a", TEXT, {**SERVERS, "auto.offset.reset": "none"})

    def test_can_begin_elsewhere(self) -> None:
        consumer = self.consumer()
        assert consumer.set_start_from_earliest().resolved().starting == KafkaOffsetsInitializer.earliest()
        assert consumer.set_start_from_latest().resolved().starting == KafkaOffsetsInitializer.latest()
        assert consumer.set_start_from_timestamp(17).resolved().starting == KafkaOffsetsInitializer.timestamp(17)
        assert consumer.set_start_from_group_offsets().resolved().starting.place.value == "committed"

    def test_cannot_begin_in_the_future(self) -> None:
        with pytest.raises(ValueError, match="must not be in the future"):
            self.consumer().set_start_from_timestamp(int(time.time() * 1000) + 60_000)

    def test_commits_offsets_unless_told_not_to(self) -> None:
        assert not self.consumer().set_commit_offsets_on_checkpoints(False).resolved().commits_offsets

    def test_a_pattern_selects_topics(self) -> None:
        source = FlinkKafkaConsumer(re.compile("clicks-.*"), TEXT, GROUP).resolved()
        assert source.subscription.pattern == "clicks-.*"

    def test_properties_of_flink_are_not_those_of_a_client(self) -> None:
        given = {**GROUP, "flink.partition-discovery.interval-millis": "100"}
        assert dict(FlinkKafkaConsumer("a", TEXT, given).resolved().properties) == {"group.id": "shop"}

    def test_needs_servers(self) -> None:
        with pytest.raises(ValueError, match="a Kafka source needs servers"):
            FlinkKafkaConsumer("a", TEXT, {"group.id": "shop"})

    def test_a_stream_reads_what_is_set_when_the_source_is_added(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        consumer = self.consumer().set_start_from_earliest().disable_filter_restored_partitions_with_subscribed_topics()
        stream = env.add_source(consumer, "clicks")
        assert (stream.get_type(), consumer.get_produced_type()) == (Types.STRING(), Types.STRING())
        (upstream,) = stream._upstreams
        spec: Any = upstream.node.taken.on_driver
        assert isinstance(spec.source, KafkaSource)
        assert spec.source.starting == KafkaOffsetsInitializer.earliest()

    def test_a_source_function_in_python_is_refused_with_what_to_write_instead(self) -> None:
        class Numbers(SourceFunction):
            def __init__(self) -> None:
                pass

        with pytest.raises(TypeError, match=r"cannot run Numbers.*extend SplitSource"):
            StreamExecutionEnvironment.get_execution_environment().add_source(Numbers())


class TestProducer:
    def producer(
        self, semantic: Semantic = Semantic.AT_LEAST_ONCE, more: Mapping[str, str] | None = None
    ) -> FlinkKafkaProducer:
        return FlinkKafkaProducer("orders", TEXT, {**GROUP, **(more or {})}, semantic=semantic)

    @pytest.mark.parametrize(
        ("semantic", "guarantee"),
        [
            (Semantic.EXACTLY_ONCE, "exactly-once"),
            (Semantic.AT_LEAST_ONCE, "at-least-once"),
            (Semantic.NONE, "at-least-once"),
        ],
    )
    def test_guarantees_what_its_semantic_says(self, semantic: Semantic, guarantee: str) -> None:
        producer = self.producer(semantic)
        assert producer.guarantee == producer.configured(Configuration()).guarantee == guarantee
        assert isinstance(producer.configured(Configuration()), KafkaSink)
        assert (producer.create_committer() is not None) == (guarantee == "exactly-once")

    def test_a_semantic_is_not_a_delivery_guarantee(self) -> None:
        wrong: Any = DeliveryGuarantee.NONE
        with pytest.raises(TypeError, match="a Semantic is needed"):
            self.producer(wrong)

    def test_guarantees_nothing_if_failures_are_only_logged(self) -> None:
        producer = self.producer().set_log_failures_only(True)
        assert producer.guarantee == producer.configured(Configuration()).guarantee == "none"
        assert producer.set_log_failures_only(False).guarantee == "at-least-once"

    def test_failures_of_exactly_once_are_never_only_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        producer = self.producer(Semantic.EXACTLY_ONCE).set_log_failures_only(True).set_flush_on_checkpoint(False)
        with caplog.at_level(logging.WARNING):
            assert producer.configured(Configuration()).guarantee == "exactly-once"
        assert "set_log_failures_only(True) has no effect" in caplog.text

    def record(self, producer: FlinkKafkaProducerBase) -> KafkaProducerRecord:
        sink: Any = producer.configured(Configuration())
        (record,) = sink._serializer.columns(["a"], [17]).records()
        assert sink._serializer.serialize("a", 17) == record
        made: KafkaProducerRecord = record
        return made

    def test_records_have_the_time_of_writing_unless_told_otherwise(self) -> None:
        assert self.record(self.producer()) == KafkaProducerRecord("orders", b"a")
        assert self.record(self.producer().set_write_timestamp_to_kafka(True)).timestamp == 17

    def test_properties_of_consumers_are_ignored_as_by_kafkas_own_producer(self) -> None:
        assert "group.id" not in repr(self.producer(more={"auto.offset.reset": "latest", "key.deserializer": "x.Y"}))

    def test_a_property_that_nobody_knows_is_refused_at_once(self) -> None:
        with pytest.raises(ConfigurationError, match="linger"):
            self.producer(more={"lingering.ms": "5"})

    def test_needs_servers(self) -> None:
        with pytest.raises(ConfigurationError, match="needs servers"):
            FlinkKafkaProducer("orders", TEXT, {})

    def test_ends_a_stream_and_travels_to_workers(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        producer = self.producer(Semantic.EXACTLY_ONCE).ignore_failures_after_transaction_timeout()
        env.from_elements("a", type_info=Types.STRING()).add_sink(producer)
        assert "exactly-once" in env.explain()
        assert repr(cloudpickle.loads(cloudpickle.dumps(producer))) == repr(producer)


class TestDynamicSource:
    service = SingleClusterTopicMetadataService("main", {**SERVERS, "client.id": "x"})

    def test_streams_are_topics_of_the_cluster(self) -> None:
        builder = DynamicKafkaSource.builder().set_kafka_metadata_service(self.service).set_stream_ids({"b", "a"})
        builder.set_value_only_deserializer(TEXT).set_group_id("shop").set_client_id_prefix("p")
        builder.set_starting_offsets(KafkaOffsetsInitializer.latest()).set_property("fetch.min.bytes", "2")
        source = builder.set_properties({"max.poll.records": "5"}).set_bounded(KafkaOffsetsInitializer.latest()).build()
        found = source.resolved()
        assert (found.subscription.topics, found.servers, found.bounded) == (("a", "b"), "localhost:9092", True)
        assert (found.group_id, found.starting) == ("shop", KafkaOffsetsInitializer.latest())
        assert (found.properties["fetch.min.bytes"], found.properties["max.poll.records"]) == ("2", "5")
        assert source.bounded

    def test_streams_can_match_a_pattern(self) -> None:
        builder = DynamicKafkaSource.builder().set_stream_pattern("orders-.*").set_value_only_deserializer(TEXT)
        assert builder.set_kafka_metadata_service(self.service).build().resolved().subscription.pattern == "orders-.*"

    def test_says_what_is_missing(self) -> None:
        with pytest.raises(ValueError, match="set_kafka_metadata_service"):
            DynamicKafkaSource.builder().set_stream_ids({"a"}).set_value_only_deserializer(TEXT).build()
        with pytest.raises(ValueError, match="set_stream_ids"):
            DynamicKafkaSource.builder().set_kafka_metadata_service(self.service).build()
        with pytest.raises(ValueError, match=r"need bootstrap\.servers"):
            SingleClusterTopicMetadataService("main", {})
        with pytest.raises(TypeError, match="a set of names"):
            DynamicKafkaSource.builder().set_stream_ids("clicks")

    def test_other_services_and_subscribers_are_refused_at_once(self) -> None:
        class Registry(KafkaMetadataService):
            pass

        class Mine(KafkaStreamSubscriber):
            pass

        with pytest.raises(ConfigurationError, match="a single cluster, not the clusters of a Registry"):
            DynamicKafkaSource.builder().set_kafka_metadata_service(Registry())
        with pytest.raises(ConfigurationError, match="not with a Mine"):
            DynamicKafkaSource.builder().set_kafka_stream_subscriber(Mine())
