"""Moto's server for Kinesis and Firehose, in this process: streams that are written, split and merged by tests.

When a shard is split or merged, moto moves its records to the new shards, still writes to it, and never says that it
has ended. Kinesis does none of this, so that the order of the records of a key depends on the reader. So it is here.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto.kinesis.models import KinesisBackend, Stream
from moto.kinesis.utils import decompose_shard_iterator
from moto.server import ThreadedMotoServer

PROPERTIES = {
    "aws.region": "eu-west-1",
    "aws.credentials.provider.basic.accesskeyid": "tests",
    "aws.credentials.provider.basic.secretkey": "canary-secret",
}


class KinesisServer:
    """The service at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.properties = {**PROPERTIES, "aws.endpoint": endpoint}
        self.streams = self.client("kinesis")

    def client(self, service: str) -> Any:
        session = boto3.Session(aws_access_key_id="tests", aws_secret_access_key="canary-secret")  # noqa: S106
        return session.client(service, region_name="eu-west-1", endpoint_url=self.endpoint)

    def create(self, shards: int = 1) -> str:
        """Create a stream, and return its name."""
        name = f"stream-{uuid.uuid4().hex[:8]}"
        self.streams.create_stream(StreamName=name, ShardCount=shards)
        self.streams.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
        return name

    def put(self, stream: str, values: Sequence[str], key: str | None = None) -> None:
        """Write records, each with its own key unless one is given."""
        for start in range(0, len(values), 500):
            records = [{"Data": value.encode(), "PartitionKey": key or value} for value in values[start : start + 500]]
            self.streams.put_records(StreamName=stream, Records=records)

    def shards(self, stream: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.streams.list_shards(StreamName=stream)["Shards"]
        return found

    def split(self, stream: str) -> None:
        """Split the first open shard in the middle."""
        keys = self._open(stream)[0]["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        shard = self._open(stream)[0]["ShardId"]
        self.streams.split_shard(StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle))

    def merge(self, stream: str) -> None:
        """Merge the first two open shards."""
        one, other = [shard["ShardId"] for shard in self._open(stream)][:2]
        self.streams.merge_shards(StreamName=stream, ShardToMerge=one, AdjacentShardToMerge=other)

    def _open(self, stream: str) -> list[dict[str, Any]]:
        """The shards that can be written to, by their hash keys."""
        found = [one for one in self.shards(stream) if "EndingSequenceNumber" not in one["SequenceNumberRange"]]
        return sorted(found, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))

    def values(self, stream: str) -> list[str]:
        """All records of a stream, shard by shard."""
        found = []
        for shard in self.shards(stream):
            place = {"StreamName": stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self.streams.get_shard_iterator(**place)["ShardIterator"]
            while iterator:
                answer = self.streams.get_records(ShardIterator=iterator, Limit=10_000)
                found += [record["Data"].decode() for record in answer["Records"]]
                iterator = answer.get("NextShardIterator") if answer["Records"] else None
        return found


def _keeping_records(change: Callable[..., None], shards: int) -> Callable[..., None]:
    """A resharding that leaves the records of the first ``shards`` arguments where they are."""

    def changed(stream: Stream, *arguments: str) -> None:
        kept = {name: stream.shards[name].records for name in arguments[:shards]}
        for name in kept:
            stream.shards[name].records = OrderedDict()
        try:
            change(stream, *arguments)
        finally:
            for name, records in kept.items():
                stream.shards[name].records = records

    return changed


def _with_ends(get: Callable[..., Any]) -> Callable[..., Any]:
    """Reads a shard; one that was split or merged ends after its last record."""

    def got(backend: KinesisBackend, stream_arn: str | None, shard_iterator: str, limit: int | None) -> Any:
        following, records, behind = get(backend, stream_arn, shard_iterator, limit)
        stream_name, shard_id, at = decompose_shard_iterator(following)
        shard = backend.describe_stream(stream_arn, stream_name).get_shard(shard_id)
        last = max(shard.records, default=0)
        return (None if not shard.is_open and int(at) >= last else following), records, behind

    return got


def _open_shard(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Chooses the shard that a record is written to among those that are open."""

    def chosen(stream: Stream, partition_key: str, explicit_hash_key: str) -> Any:
        shards = stream.shards
        stream.shards = {name: shard for name, shard in shards.items() if shard.is_open}
        try:
            return choose(stream, partition_key, explicit_hash_key)
        finally:
            stream.shards = shards

    return chosen


@contextmanager
def kinesis_server() -> Iterator[KinesisServer]:
    """A running server without streams."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "split_shard", _keeping_records(Stream.split_shard, 1))
        patch.setattr(Stream, "merge_shards", _keeping_records(Stream.merge_shards, 2))
        patch.setattr(Stream, "get_shard_for_key", _open_shard(Stream.get_shard_for_key))
        patch.setattr(KinesisBackend, "get_records", _with_ends(KinesisBackend.get_records))
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield KinesisServer(f"http://{host}:{port}")
        finally:
            server.stop()
