"""Shards that are split and merged, positions, aggregated records, retries and settings of the Kinesis connectors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.kinesis_server import KinesisServer, kinesis_server
from tests.unit.connectors.sink_epochs import context
from tests.waiting import eventually
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.kinesis import batching
from tidemill.connectors.kinesis.assigners import ShardInfo
from tidemill.connectors.kinesis.client import AwsClients
from tidemill.connectors.kinesis.options import ConsumerOptions
from tidemill.connectors.kinesis.records import ShardRecord, separated
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.connectors.sources import Split, SplitEnumerator
from tidemill.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisFirehoseSink,
    KinesisShardAssigner,
    KinesisStreamsSink,
    PartitionKeyGenerator,
    WatermarkTracker,
)
from tidemill.errors import ConfigurationError, ConnectorError, LostInputError, SerializationError

QUICK = {"flink.shard.getrecords.intervalmillis": "10", "flink.shard.discovery.intervalmillis": "50"}
BEGINNING = {**QUICK, "flink.stream.initpos": "TRIM_HORIZON"}


@pytest.fixture(scope="module")
def server() -> Iterator[KinesisServer]:
    with kinesis_server() as running:
        yield running


def consumer(server: KinesisServer, stream: str, **properties: str) -> FlinkKinesisConsumer:
    return FlinkKinesisConsumer(stream, SimpleStringSchema(), {**server.properties, **BEGINNING, **properties})


@contextlib.contextmanager
def reading(source: FlinkKinesisConsumer, position: Any = None) -> Iterator[SplitEnumerator]:
    enumerator = source.create_enumerator(json.loads(json.dumps(position)))
    try:
        yield enumerator
    finally:
        enumerator.close()


def splits(enumerator: SplitEnumerator, most: int = 100) -> list[Split]:
    eventually(enumerator.available)
    return [split for some in enumerator.next_splits(2, most) for split in _several(some)]


def _several(some: Split | Sequence[Split]) -> Sequence[Split]:
    return [some] if isinstance(some, Split) else some


def read(source: FlinkKinesisConsumer, found: Sequence[Split]) -> list[str]:
    return [value for split in found for batch in source.read(split) for value in batch.values]


def read_until(source: FlinkKinesisConsumer, enumerator: SplitEnumerator, count: int) -> list[str]:
    values: list[str] = []
    while len(values) < count:
        values += read(source, splits(enumerator))
    return values


# ------------------------------------------------------------------------------------------------------------- source


def test_records_of_a_key_stay_in_order_while_shards_are_split_and_merged(server: KinesisServer) -> None:
    stream = server.create(2)
    for number in range(3):
        server.put(stream, [f"a{number}-{n}" for n in range(5)], "a")
        server.put(stream, [f"b{number}-{n}" for n in range(5)], "b")
        (server.split if number == 0 else server.merge)(stream)
    source = consumer(server, stream)
    with reading(source) as enumerator:
        values = read_until(source, enumerator, 30)
    for key in "ab":
        assert [v for v in values if v[0] == key] == [f"{key}{number}-{n}" for number in range(3) for n in range(5)]


def test_a_resharding_while_the_job_runs(server: KinesisServer) -> None:
    stream = server.create(1)
    source = consumer(server, stream)
    with reading(source) as enumerator:
        server.put(stream, ["before"])
        assert read_until(source, enumerator, 1) == ["before"]
        (parent,) = enumerator.position()[stream]
        server.split(stream)
        server.put(stream, [f"after {n}" for n in range(20)])
        found: list[Split] = []
        while sum(split.records for split in found) < 20:
            found += splits(enumerator)
        assert sorted(read(source, found)) == sorted(f"after {n}" for n in range(20))
        assert [split.partition for split in found if split.last] == [f"{stream}/{parent}"]
        assert enumerator.position()[stream][parent] == {"ended": True}
        position = enumerator.position()
    with reading(source, position) as enumerator:  # and after a restart
        server.put(stream, ["last"])
        assert read_until(source, enumerator, 1) == ["last"]


def test_every_shard_is_announced_before_its_first_record(server: KinesisServer) -> None:
    stream = server.create(3)
    server.put(stream, ["one"])
    with reading(consumer(server, stream)) as enumerator:
        first = splits(enumerator)
        assert {split.partition for split in first} == {f"{stream}/{s['ShardId']}" for s in server.shards(stream)}
        assert sum(split.records for split in first) == 1


def test_the_latest_position_is_the_same_after_a_restart(server: KinesisServer) -> None:
    """Nothing was read before the driver died: what has come since the job was started is not skipped."""
    stream = server.create(1)
    server.put(stream, ["too early"])
    time.sleep(0.1)
    source = consumer(server, stream, **{"flink.stream.initpos": "LATEST"})
    with reading(source) as enumerator:
        position = enumerator.position()
    time.sleep(0.1)
    server.put(stream, ["while the job was down"])
    with reading(source, position) as enumerator:
        assert read_until(source, enumerator, 1) == ["while the job was down"]


def test_from_a_time(server: KinesisServer) -> None:
    stream = server.create(1)
    server.put(stream, ["early"])
    time.sleep(0.2)
    now = time.time()
    time.sleep(0.2)
    server.put(stream, ["late"])
    at = {"flink.stream.initpos": "AT_TIMESTAMP", "flink.stream.initpos.timestamp": str(now)}
    source = consumer(server, stream, **at)
    with reading(source) as enumerator:
        assert read_until(source, enumerator, 1) == ["late"]


def test_several_streams_share_an_epoch(server: KinesisServer) -> None:
    one, other = server.create(1), server.create(1)
    server.put(one, [f"one {n}" for n in range(50)])
    server.put(other, ["other"])
    source = FlinkKinesisConsumer([one, other], SimpleStringSchema(), {**server.properties, **BEGINNING})
    with reading(source) as enumerator:
        eventually(lambda: enumerator.pending_records() == 51)
        assert "other" in read(source, splits(enumerator, 10))


def test_the_position_of_a_record(server: KinesisServer) -> None:
    class Whole(KinesisDeserializationSchema[Any]):
        def deserialize(self, record_value: bytes, partition_key: str, seq_num: str, *place: Any) -> Any:
            return None if record_value == b"skip" else (record_value, partition_key, int(seq_num) > 0, *place[1:])

    stream = server.create(1)
    server.put(stream, ["value", "skip"], "key")
    source = FlinkKinesisConsumer(stream, Whole(), {**server.properties, **BEGINNING})
    with reading(source) as enumerator:
        eventually(lambda: enumerator.pending_records() == 2)
        (split,) = splits(enumerator)
        (batch,) = source.read(split)
        assert batch.values == [(b"value", "key", True, stream, server.shards(stream)[0]["ShardId"])]
        assert abs(batch.timestamps[0] / 1000 - time.time()) < 300  # type: ignore[index]


def test_a_record_that_cannot_be_read(server: KinesisServer) -> None:
    stream = server.create(1)
    server.streams.put_record(StreamName=stream, Data=b"\xff\xfe", PartitionKey="k")
    source = consumer(server, stream)
    with reading(source) as enumerator, pytest.raises(SerializationError, match=rf"stream '{stream}', sequence"):
        read(source, splits(enumerator))


def test_a_stream_that_does_not_exist(server: KinesisServer) -> None:
    with pytest.raises(ConnectorError, match=r"listing the shards of 'none' failed: .*ResourceNotFound"):
        consumer(server, "none").create_enumerator(None)


def test_a_shard_that_expired_before_it_was_read(server: KinesisServer) -> None:
    stream = server.create(1)
    with pytest.raises(LostInputError, match=r"shardId-9 of stream .* has expired"):
        consumer(server, stream).create_enumerator({stream: {"shardId-9": {"after": "1"}}})


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def test_aggregated_records_are_separated() -> None:
    inner = [field(1, 0) + field(3, b"one"), field(1, 1) + field(2, 0) + field(3, b"two" * 100)]
    content = field(1, b"key a") + field(1, b"key b") + field(2, b"1") + b"".join(field(3, each) for each in inner)
    whole = b"\xf3\x89\x9a\xc2" + content + hashlib.md5(content, usedforsecurity=False).digest()
    record = ShardRecord("17", "ignored", 5, whole)
    assert separated(record) == [ShardRecord("17", "key a", 5, b"one"), ShardRecord("17", "key b", 5, b"two" * 100)]
    broken = record._replace(data=whole[:-1] + b"x")
    assert separated(broken) == (broken,)
    assert separated(record._replace(data=b"plain")) == (record._replace(data=b"plain"),)


def test_assigners() -> None:
    last = (1 << 128) - 1
    shards = [ShardInfo("s", f"shard-{n}", last // 4 * n, last // 4 * (n + 1)) for n in range(4)]
    uniform = KinesisShardAssigner.uniform_shard_assigner()
    assert [uniform.assign(shard, 2) for shard in shards] == [0, 0, 1, 1]
    default = KinesisShardAssigner.default_shard_assigner()
    assert [default.assign(shard, 3) for shard in shards] == [default.assign(shard, 3) for shard in shards]
    assert KinesisShardAssigner(lambda shard, parallelism: 7).assign(shards[0], 4) == 3


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "aws.region or aws.endpoint"),
        ({"aws.region": "r", "flink.stream.initpos": "EARLIEST"}, "LATEST, TRIM_HORIZON or AT_TIMESTAMP"),
        ({"aws.region": "r", "flink.stream.initpos": "AT_TIMESTAMP"}, "needs flink.stream.initpos.timestamp"),
        ({"aws.region": "r", "flink.shard.getrecords.maxretries": "many"}, "must be a number"),
        ({"aws.region": "r", "aws.credentials.provider": "BASIC"}, "accesskeyid"),
        ({"aws.region": "r", "aws.credentials.provider": "ASSUME_ROLE"}, "Use PROFILE"),
    ],
)
def test_properties_are_checked(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        FlinkKinesisConsumer("s", SimpleStringSchema(), properties)


def test_times_and_delays() -> None:
    at = {"flink.stream.initpos": "AT_TIMESTAMP", "flink.stream.initpos.timestamp": "2016-04-04T19:58:46.480-00:00"}
    assert ConsumerOptions.of(at).timestamp == 1459799926480
    assert ConsumerOptions.of({**at, "flink.stream.initpos.timestamp": "1459799926.480"}).timestamp == 1459799926480
    with pytest.raises(ConfigurationError, match="time zone"):
        ConsumerOptions.of({**at, "flink.stream.initpos.timestamp": "2016-04-04T19:58:46"})
    assert [ConsumerOptions.of({}).backoff(n) for n in (0, 1, 9)] == pytest.approx([0.3, 0.45, 1.0])


def test_methods_without_effect_and_secrets(server: KinesisServer) -> None:
    source = consumer(server, "s").set_shard_assigner(KinesisShardAssigner.uniform_shard_assigner())
    assert source.set_watermark_tracker(WatermarkTracker.job_manager_watermark_tracker("all")) is source
    with pytest.raises(ConfigurationError, match=r"env.from_source"):
        source.set_periodic_watermark_assigner(None)
    assert "canary" not in repr(AwsClients("kinesis", server.properties))


# --------------------------------------------------------------------------------------------------------------- sinks


def streams_sink(server: KinesisServer, stream: str) -> Any:
    builder = KinesisStreamsSink.builder().set_stream_name(stream).set_serialization_schema(SimpleStringSchema())
    builder.set_partition_key_generator(PartitionKeyGenerator.fixed())
    return builder.set_kinesis_client_properties(server.properties)


def opened(sink: Sink) -> SinkWriter:
    writer = sink.create_writer(0, 1)
    writer.open(None)  # type: ignore[arg-type]  # it is not used
    writer.begin_epoch(context(1))
    return writer


class Calls:
    """Stands before a client: notes the sizes of requests, and rejects records as told."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.sizes: list[int] = []
        #: For each request, how many of its records are rejected, from the second on.
        self.rejects: list[int] = []

    def put_records(self, **request: Any) -> Any:
        stream, records = request["StreamName"], request["Records"]
        self.sizes.append(len(records))
        rejected = self.rejects.pop(0) if self.rejects else 0
        code = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"}
        accepted = records[: len(records) - rejected]
        if accepted:
            self.inner.put_records(StreamName=stream, Records=accepted)
        return {"FailedRecordCount": rejected, "Records": [{}] * len(accepted) + [code] * rejected}

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Calls]:
    made: list[Calls] = []
    create = AwsClients.client

    def noted(clients: AwsClients) -> Any:
        made.append(Calls(create(clients)))
        return made[-1]

    monkeypatch.setattr(AwsClients, "client", noted)
    monkeypatch.setattr(batching, "_FIRST_PAUSE", 0.001)
    return made


def test_requests_have_limits(server: KinesisServer, calls: list[Calls]) -> None:
    stream = server.create(1)
    writer = opened(streams_sink(server, stream).build())
    writer.write([str(n) for n in range(1100)], None)
    assert calls[0].sizes == [500, 500]
    writer.prepare_commit()
    assert calls[0].sizes == [500, 500, 100]
    assert server.values(stream) == [str(n) for n in range(1100)]
    writer.close()
    writer = opened(streams_sink(server, stream).set_max_batch_size_in_bytes(1 << 20).build())
    writer.write(["x" * 400_000] * 5, None)
    writer.prepare_commit()
    assert calls[1].sizes == [2, 2, 1]
    writer.close()


def test_rejected_records_are_sent_again(server: KinesisServer, calls: list[Calls]) -> None:
    stream = server.create(1)
    writer = opened(streams_sink(server, stream).build())
    calls[0].rejects = [3, 3, 1]
    writer.write([str(n) for n in range(5)], None)
    writer.prepare_commit()
    assert calls[0].sizes == [5, 3, 3, 1]
    assert sorted(server.values(stream)) == ["0", "1", "2", "3", "4"]
    writer.close()


def test_rejected_records_can_fail_the_job(server: KinesisServer, calls: list[Calls]) -> None:
    writer = opened(streams_sink(server, server.create(1)).set_fail_on_error(True).build())
    calls[0].rejects = [1]
    writer.write(["a", "b"], None)
    with pytest.raises(ConnectorError, match="rejected 1 of 2 records: ProvisionedThroughputExceededException"):
        writer.prepare_commit()
    writer.close()


def test_retries_come_to_an_end(server: KinesisServer, calls: list[Calls], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_PATIENCE", 0.01)
    writer = opened(streams_sink(server, server.create(1)).build())
    calls[0].rejects = [2] * 100
    writer.write(["a", "b"], None)
    with pytest.raises(ConnectorError, match=r"rejected 2 of 2 records: .* Rate exceeded, for 0.01 s"):
        writer.prepare_commit()
    writer.close()


def test_a_record_that_is_too_large(server: KinesisServer) -> None:
    writer = opened(streams_sink(server, server.create(1)).set_max_record_size_in_bytes(100).build())
    with pytest.raises(ConnectorError, match="a record of 101 bytes is too large"):
        writer.write(["x" * 100], None)  # with its key
    writer.close()


def test_a_stream_that_is_gone(server: KinesisServer) -> None:
    writer = opened(streams_sink(server, "none").build())
    writer.write(["x"], None)
    with pytest.raises(ConnectorError, match="stream 'none' of Kinesis at http"):
        writer.prepare_commit()
    writer.close()


def test_firehose(server: KinesisServer) -> None:
    server.client("s3").create_bucket(Bucket="archive", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    server.client("firehose").create_delivery_stream(
        DeliveryStreamName="archive",
        S3DestinationConfiguration={"RoleARN": "arn:aws:iam::1:role/r", "BucketARN": "arn:aws:s3:::archive"},
    )
    builder = KinesisFirehoseSink.builder().set_delivery_stream_name("archive").set_max_batch_size(2)
    builder.set_serialization_schema(SimpleStringSchema()).set_firehose_client_properties(server.properties)
    writer = opened(builder.build())
    writer.write(["a\n", "b\n", "c\n"], None)
    writer.prepare_commit()
    writer.close()
    store = server.client("s3")
    objects = store.list_objects_v2(Bucket="archive")["Contents"]
    bodies = [store.get_object(Bucket="archive", Key=each["Key"])["Body"].read() for each in objects]
    assert sorted(b"".join(bodies).splitlines()) == [b"a", b"b", b"c"]


def test_settings_are_checked(server: KinesisServer) -> None:
    with pytest.raises(ConfigurationError, match="set_stream_name"):
        KinesisStreamsSink.builder().build()
    with pytest.raises(ConfigurationError, match="set_partition_key_generator"):
        KinesisStreamsSink.builder().set_stream_name("s").set_serialization_schema(SimpleStringSchema()).build()
    with pytest.raises(ConfigurationError, match="at most 500"):
        streams_sink(server, "s").set_max_batch_size(501)
    with pytest.raises(ConfigurationError, match="must not exceed"):
        streams_sink(server, "s").set_max_batch_size_in_bytes(10).build()


def test_partition_keys() -> None:
    assert PartitionKeyGenerator.fixed().key("x", 3) == "3"
    assert PartitionKeyGenerator.random().key("x", 3) != PartitionKeyGenerator.random().key("x", 3)
    assert PartitionKeyGenerator(lambda record: record[0]).key("abc", 0) == "a"
