"""Files that jobs write to an object store: against an S3 server, whose requests fail, hang and are refused."""

from __future__ import annotations

import contextlib
import gzip
from typing import Any

import pytest

from tests.object_store import Proxy, Server, options_for
from tests.unit.connectors.sink_epochs import context, run_epoch
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.common import Configuration, Encoder
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.errors import ConnectorError, TidemillError

NUMBERS = 12
SLOW = RollingPolicy.default_rolling_policy(1 << 20, 1 << 40, 1 << 40)
EACH_EPOCH = RollingPolicy.on_checkpoint_rolling_policy()


class OddOrEven(BucketAssigner):
    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return f"is odd={bool(int(value[-1]) % 2)}"


def file_sink(place: str, policy: RollingPolicy = EACH_EPOCH, compression: str | None = None) -> FileSink:
    builder = FileSink.for_row_format(place, Encoder.simple_string_encoder()).with_bucket_assigner(OddOrEven())
    if compression is not None:
        builder.with_compression(compression)
    return builder.with_rolling_policy(policy).build()


def configuration(options: dict[str, str], **more: str) -> Configuration:
    job = {"execution.target": "local", "execution.epoch.max-records": "4", "parallelism.default": "2"}
    return Configuration.from_dict({**job, **{f"s3.{key}": value for key, value in options.items()}, **more})


def write_numbers(sink: FileSink, options: dict[str, str], **more: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(configuration(options, **more))
    env.from_sequence(1, NUMBERS).map(str).sink_to(sink).uid("files")
    env.execute("numbers")


def stored(place: str, server: Server) -> dict[str, bytes]:
    storage = ObjectStorage(place, server.options)
    return {
        name: storage._call("read", name, lambda s, api, n=name: bytes(api.get(s, n).bytes()))
        for name in storage.list()
    }


def numbers(files: dict[str, bytes]) -> list[int]:
    assert not [name for name in files if name.startswith(".")]
    texts = [gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()]
    return sorted(int(line) for text in texts for line in text.split())


@pytest.mark.parametrize("policy", [EACH_EPOCH, SLOW], ids=["each epoch", "slow"])
def test_a_job_writes_there_and_leaves_nothing_else(server: Server, place: str, policy: RollingPolicy) -> None:
    write_numbers(file_sink(place, policy, "gzip"), server.options)
    files = stored(place, server)
    assert {name.partition("/")[0] for name in files} == {"is odd=False", "is odd=True"}
    assert numbers(files) == list(range(1, NUMBERS + 1))
    if policy is SLOW:
        assert len(files) <= 4  # two subtasks, two buckets


def test_a_job_lives_through_a_store_that_fails_now_and_then(server: Server, proxy: Proxy, place: str) -> None:
    """Requests are refused, fail, or succeed without an answer: also copies and deletions."""
    troubles = ["500", "cut", "refuse", "503"]
    proxy.trouble = lambda number, method, path: troubles[number // 4 % 4] if number % 4 == 0 else None
    write_numbers(file_sink(place, SLOW), {**proxy.options, "max-retries": "8"})
    assert numbers(stored(place, server)) == list(range(1, NUMBERS + 1))


def test_a_job_comes_back_when_the_store_does(server: Server, proxy: Proxy, place: str) -> None:
    proxy.trouble = lambda number, method, path: "refuse" if 10 <= number < 24 else None
    restarts = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    write_numbers(file_sink(place, SLOW), {**proxy.options, "max-retries": "0"}, **restarts)
    assert len(proxy.requests) > 24
    assert numbers(stored(place, server)) == list(range(1, NUMBERS + 1))


def test_an_outage_is_an_error_that_names_the_object(proxy: Proxy, place: str) -> None:
    proxy.trouble = lambda number, method, path: "500" if method == "PUT" else None
    with pytest.raises(
        TidemillError, match=rf"cannot write {place}/\.tidemill-.*inprogress.*after 1 retries"
    ) as failed:
        write_numbers(file_sink(place), {**proxy.options, "max-retries": "1"})
    assert "a secret" not in str(failed.value)


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_refusal_is_raised_at_the_start(proxy: Proxy, place: str, status: str) -> None:
    proxy.trouble = lambda number, method, path: status
    with pytest.raises(
        ConnectorError, match=rf"cannot list {place}/\.tidemill.*refused access.*s3\.access-key"
    ) as failed:
        write_numbers(file_sink(place), proxy.options)
    assert "a secret" not in str(failed.value)


def test_a_missing_bucket_is_named_at_the_start(server: Server) -> None:
    with pytest.raises(ConnectorError, match=r"cannot list s3://nobody/x/\.tidemill-.*: the bucket does not exist"):
        write_numbers(file_sink("s3://nobody/x"), server.options)


def test_a_store_that_does_not_answer_is_waited_for_so_long(proxy: Proxy, place: str) -> None:
    proxy.trouble = lambda number, method, path: "slow"
    with pytest.raises(ConnectorError, match=rf"cannot list {place}/.*error sending request"):
        write_numbers(file_sink(place), {**proxy.options, "timeout": "300 ms", "max-retries": "0"})


def test_a_missing_server_is_an_error_soon(place: str) -> None:
    with pytest.raises(ConnectorError, match=rf"cannot list {place}/"):
        write_numbers(file_sink(place), options_for(1))


def test_a_large_file_goes_in_pieces_and_an_upload_that_fails_is_taken_back(
    server: Server, proxy: Proxy, place: str
) -> None:
    sink = file_sink(place).configured(configuration(proxy.options))
    values = [str(n).zfill(4000) for n in range(0, 6000, 2)]  # 12 MB
    proxy.trouble = lambda number, method, path: "403" if "partNumber=2" in path else None
    with contextlib.closing(sink.create_writer(0, 1)) as writer:
        writer.begin_epoch(context(1))
        writer.write(values, None)
        with pytest.raises(ConnectorError, match="refused access"):
            writer.prepare_commit()
        # The pieces that had arrived; others may still be under way.
        assert ["uploadId=" in path for method, path in proxy.requests if method == "DELETE"] == [True]
    assert stored(place, server) == {}
    proxy.trouble = lambda number, method, path: None
    sink.create_committer().commit(run_epoch(sink, 1, values))
    assert [int(line) for data in stored(place, server).values() for line in data.split()] == list(range(0, 6000, 2))


def test_an_upload_whose_cleanup_finds_nothing_is_a_failure_to_write(proxy: Proxy, place: str) -> None:
    sink = file_sink(place).configured(configuration(proxy.options))
    proxy.trouble = lambda number, method, path: (
        "403" if "partNumber=2" in path else "404" if method == "DELETE" and "uploadId=" in path else None
    )
    with contextlib.closing(sink.create_writer(0, 1)) as writer:
        writer.begin_epoch(context(1))
        writer.write([str(n).zfill(4000) for n in range(0, 6000, 2)], None)  # 12 MB
        with pytest.raises(ConnectorError, match=rf"cannot write {place}/.*DELETE"):
            writer.prepare_commit()
