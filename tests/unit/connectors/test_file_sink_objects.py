"""The file sink on an object store: what readers of the prefix see at any request, and after a death at any request."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import pickle
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from obstore.exceptions import GenericError

from tests.memory_objects import URI, MemoryObjects
from tests.unit.connectors.sink_epochs import Job, context, run_epoch
from tidemill.common import Configuration, Encoder
from tidemill.common.constants import MAX_LONG_VALUE
from tidemill.connectors.file_system import object_parts
from tidemill.connectors.file_system.object_parts import ObjectParts
from tidemill.connectors.sinks import Committed, CommitterContext
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.datastream.program.specs import SinkSpec
from tidemill.errors import CheckpointError, ConfigurationError, ConnectorError, GraphError

SLOW = RollingPolicy.default_rolling_policy(1 << 20, 1 << 40, 1 << 40)
ONE_SECOND = RollingPolicy.default_rolling_policy(100, 1000, 500)
EACH_EPOCH = RollingPolicy.on_epoch_rolling_policy()
#: What the job of a story writes, an epoch each.
STORY = [["a0", "b0"], ["a1"], ["a2", "c2"], [], ["b4", "a4"]]


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> MemoryObjects:
    return MemoryObjects(monkeypatch)


class ByFirstLetter(BucketAssigner):
    def __init__(self, before: str = "") -> None:
        self.before = before

    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return self.before + str(value[0])


class WholeValue(BucketAssigner):
    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return str(value)


@contextmanager
def few_files(more: int) -> Iterator[None]:
    """While the block runs, this process cannot open more than so many files besides those it has."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(path.name) for path in Path("/dev/fd").iterdir()}
    free = itertools.filterfalse(used.__contains__, itertools.count())
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, more, None)), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def row_sink(policy: RollingPolicy = EACH_EPOCH, buckets: BucketAssigner | None = None) -> FileSink:
    builder = FileSink.for_row_format(URI, Encoder.simple_string_encoder())
    builder.with_bucket_assigner(buckets or BucketAssigner.base_path_bucket_assigner())
    builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
    return builder.with_rolling_policy(policy).build()


def visible(objects: MemoryObjects) -> dict[str, str]:
    """What Spark and others would read: no name on the way begins with a dot."""
    found = objects.files().items()
    return {name: data.decode() for name, data in found if not any(part.startswith(".") for part in name.split("/"))}


def lines(objects: MemoryObjects) -> list[str]:
    return sorted("".join(visible(objects).values()).split())


def test_a_reader_sees_committed_data_only(objects: MemoryObjects) -> None:
    sink = row_sink()
    epoch = run_epoch(sink, 3, "ab", "c")
    assert visible(objects) == {}
    assert len(objects.files()) == 2
    sink.create_committer().commit(epoch)
    assert [name.split("-", 2)[2] for name in visible(objects)] == ["0-3.txt", "1-3.txt"]
    assert list(visible(objects).values()) == ["a\nb\n", "c\n"]
    assert len(objects.files()) == 2
    before = objects.files()
    sink.create_committer().commit(epoch)
    assert objects.files() == before


def test_an_epoch_takes_an_upload_a_copy_and_a_deletion(objects: MemoryObjects) -> None:
    job = Job(row_sink())
    job.epoch_of(["a"], now=0)
    assert objects.requests == ["put", "copy", "delete"]


@pytest.mark.parametrize("policy", [EACH_EPOCH, ONE_SECOND, SLOW], ids=["each epoch", "one second", "slow"])
@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "when it is done"])
def test_a_death_at_any_request_loses_and_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch, policy: RollingPolicy, after: bool
) -> None:
    """Whoever dies takes nothing along and clears up nothing; another process resumes from what is committed."""
    died_at = 0
    while True:
        died_at += 1
        objects = MemoryObjects(monkeypatch)
        objects.die_at, objects.after = died_at, after
        job = Job(row_sink(policy, ByFirstLetter()))

        def look(objects: MemoryObjects = objects, job: Job = job) -> None:
            """After each request: nothing is seen that is not committed, and nothing twice."""
            assert set(lines(objects)) <= {line for values in STORY[: job.epoch] for line in values}
            assert len(lines(objects)) == len(set(lines(objects)))

        objects.look = look
        for n, values in enumerate([*STORY, []]):
            end = n == len(STORY)
            try:
                job.run(values, n * 400, end=end)
            except ConnectorError:
                go_on(objects, job)
                job.run(values, n * 400, end=end, attempt="b")
            try:
                job.commit()
            except ConnectorError:
                go_on(objects, job)
        if died_at > len(objects.requests):
            return
        job.restart()
        assert lines(objects) == sorted(line for values in STORY for line in values), died_at
        assert len(objects.files()) == len(visible(objects)), died_at


def go_on(objects: MemoryObjects, job: Job) -> None:
    """The process is dead: what it has open goes with it, and another one starts."""
    assert objects.dead
    job.writer.close()
    objects.revive()
    job.restart()


def test_parts_grow_over_epochs_as_a_few_hidden_segments(objects: MemoryObjects) -> None:
    job = Job(row_sink(SLOW))
    for n in range(40):
        job.epoch_of([f"line {n}"], now=n)
        assert len(objects.files()) <= 7
        assert visible(objects) == {}
    job.epoch_of([], now=41, end=True)
    assert list(visible(objects).values()) == ["".join(f"line {n}\n" for n in range(40))]
    assert len(objects.files()) == 1


def test_a_full_part_is_uploaded_in_the_middle_of_an_epoch(objects: MemoryObjects) -> None:
    job = Job(row_sink(ONE_SECOND))
    job.writer.begin_epoch(context(1))
    job.writer.write(["x" * 120], None)
    assert objects.requests == ["put"]
    job.writer.begin_epoch(context(1, attempt="a2"))  # the epoch failed: what it has uploaded does not count
    assert objects.files() == {}
    job.writer.close()


def test_compaction_of_compressed_rows(objects: MemoryObjects) -> None:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()
    builder = FileSink.for_row_format(URI, Encoder.simple_string_encoder()).with_compression("gzip")
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    job = Job(builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build())
    for n in range(3):
        assert not visible(objects)
        job.epoch_of([n], now=n)
    ((name, data),) = objects.files().items()
    assert name.endswith(".gz")
    assert gzip.decompress(data) == b"0\n1\n2\n"


@pytest.mark.parametrize("policy", [EACH_EPOCH, SLOW], ids=["each epoch", "slow"])
def test_parquet(objects: MemoryObjects, policy: RollingPolicy) -> None:
    builder = FileSink.for_bulk_format(URI, ParquetBulkWriters.for_row_type("id LONG, name STRING"))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).with_rolling_policy(policy)
    job = Job(builder.build())
    job.epoch_of([(1, "a"), (2, None)], now=0)
    job.epoch_of([(3, "c")], now=1, end=True)
    tables = [pq.read_table(io.BytesIO(data)).to_pylist() for data in objects.files().values()]
    assert len(tables) == (1 if policy is SLOW else 2)
    assert [row["id"] for table in tables for row in table] == [1, 2, 3]


def test_leftovers_are_found_without_listing_what_was_ever_written(objects: MemoryObjects) -> None:
    sink = row_sink(buckets=ByFirstLetter())
    sink.create_committer().commit(run_epoch(sink, 1, ["a", "b"]))
    run_epoch(sink, 2, ["x"], attempt="lost")
    pending = run_epoch(sink, 2, ["y"])
    (leftover,) = [name for name in objects.files() if "~lost" in name]
    committer = sink.create_committer()
    committer.open(CommitterContext("job", "sink"))
    committer.discard(pending[0].committables, "lineag")  # an older lineage, whose driver was taken over
    assert leftover in objects.files()
    committer.discard(pending[0].committables, "lineage")
    assert leftover not in objects.files()
    committer.commit(pending)
    assert lines(objects) == ["a", "b", "y"]
    other = sink.create_committer()
    other.open(CommitterContext("another job", "sink"))
    run_epoch(sink, 3, ["z"])
    other.discard((), "lineage")
    assert any("-0-3.txt~" in name for name in objects.files())


def test_an_object_that_was_removed_is_an_error_that_names_it(objects: MemoryObjects) -> None:
    sink = row_sink()
    epoch = run_epoch(sink, 1, "a")
    for name in objects.files():
        objects.remove(name)
    with pytest.raises(CheckpointError, match=rf"epoch 1 .* neither {URI}/\.tidemill-.*inprogress nor {URI}/part-"):
        sink.create_committer().commit(epoch)
    sink.create_committer().commit([Committed(1, 0, epoch[0].committables, again=True)])  # taken away since


def test_a_state_whose_parts_were_finished_since_is_refused(objects: MemoryObjects) -> None:
    job = Job(row_sink(SLOW))
    job.epoch_of(["a"], now=0)
    old = job.state
    job.epoch_of([], now=1, end=True)
    with pytest.raises(CheckpointError, match=r"unfinished part file in s3://bucket/out/?, but .*kept is gone"):
        job.sink.restore_writer(0, 1, old)  # type: ignore[attr-defined]


def test_a_segment_that_was_removed_since_is_named(objects: MemoryObjects) -> None:
    job = Job(row_sink(SLOW))
    job.epoch_of(["a"], now=0)
    for name in objects.files():
        objects.remove(name)
    job.writer.begin_epoch(context(2, time=1))
    job.writer.write_watermark(MAX_LONG_VALUE)
    with pytest.raises(FileNotFoundError, match=rf"{URI}/\.tidemill-.*kept does not exist"):
        job.writer.prepare_commit()
    job.writer.close()


def test_a_full_disk_of_this_machine_is_an_error_that_names_the_object_too(objects: MemoryObjects) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    writer: Any = row_sink().create_writer(0, 1)
    writer.begin_epoch(context(1))
    writer.write(["a"], None)
    file = writer._parts[""].current
    os.dup2(os.open("/dev/full", os.O_WRONLY), file.draft.stream.fileno())
    with pytest.raises(OSError, match=rf"No space left.*{tempfile.gettempdir()} for {URI}/\.tidemill-"):
        writer.prepare_commit()
    writer.close()
    assert objects.requests == []


@pytest.mark.parametrize("before", ["../", "/etc/", "x/../../", "a\n", "_", "a\ufffe", "a\udc80"], ids=ascii)
def test_a_bucket_that_cannot_be_is_refused_before_anything_is_written(objects: MemoryObjects, before: str) -> None:
    with pytest.raises(GraphError, match=r"bucket"):
        run_epoch(row_sink(buckets=ByFirstLetter(before)), 1, ["ab"])
    assert objects.requests == []


@pytest.mark.parametrize("bucket", ["day=7", "a//b", "ü x%2F#?", "_day="])
def test_buckets_have_any_other_names(objects: MemoryObjects, bucket: str) -> None:
    sink = row_sink(SLOW, ByFirstLetter(bucket))
    job = Job(sink)
    job.epoch_of(["ab"], 0)
    job.restart()
    job.epoch_of(["ac"], 1, end=True)
    (name,) = visible(objects)
    assert name.startswith((bucket + "a/part-").replace("//", "/"))
    assert len(objects.files()) == 1


@pytest.mark.parametrize("path", ["s3://bucket/out#1", "s3://bucket/out?day=1", "gs://bucket/#"])
def test_a_path_that_would_end_early_is_refused_with_what_to_write(path: str) -> None:
    sink = FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()
    with pytest.raises(ConfigurationError, match=r"'[#?]' .* write %23 for # and %3F for \?"):
        sink.configured(Configuration())
    ObjectParts(path.replace("#", "%23").replace("?", "%3F"), {})


def test_what_is_too_large_for_one_copy_goes_through_this_machine(
    objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = row_sink()
    epoch = run_epoch(sink, 1, ["x" * 1000])
    copy = objects.copy

    def refuses(*details: Any) -> None:
        if objects.requests.count("copy") < 2:
            objects.requests.append("copy")
            raise GenericError("the source is larger than the maximum allowable size: 5368709120")
        copy(*details)

    monkeypatch.setattr(objects, "copy", refuses, raising=False)
    with pytest.raises(ConnectorError, match=rf"cannot copy {URI}/\.tidemill-.*larger than the maximum"):
        sink.create_committer().commit(epoch)
    monkeypatch.setattr(object_parts, "_LARGEST_COPY", 999)
    sink.create_committer().commit(epoch)
    assert lines(objects) == ["x" * 1000]
    assert len(objects.files()) == 1


def test_azure_copies_too_late_so_that_files_go_through_this_machine(objects: MemoryObjects) -> None:
    builder = FileSink.for_row_format("abfss://files@account.dfs.core.windows.net/out", Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    job = Job(builder.with_rolling_policy(EACH_EPOCH).build())
    job.epoch_of(["a"], now=0)
    job.commit(again=True)
    assert lines(objects) == ["a"]
    assert "copy" not in objects.requests


def test_a_store_that_minds_what_is_gone_already_deletes_the_others(
    objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = objects.delete

    def minds(store: Any, names: list[str]) -> None:
        if missing := set(names) - objects.files().keys():
            raise FileNotFoundError(f"{missing} not found")
        delete(store, names)

    monkeypatch.setattr(objects, "delete", minds, raising=False)
    sink = row_sink()
    run_epoch(sink, 1, "a", "b")
    first, second = objects.files()
    sink.settings.part_store().delete([first, "gone", second])
    assert objects.files() == {}


def test_the_jobs_configuration_says_where_the_store_is_and_stays_secret() -> None:
    options = {"execution.target": "local", "s3.endpoint": "http://127.0.0.1:1", "s3.secret-key": "a secret"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.from_sequence(1, 3).sink_to(row_sink())
    (spec,) = [node.spec for node in env._program(None).transformations if isinstance(node.spec, SinkSpec)]
    settings = pickle.loads(pickle.dumps(spec.sink)).settings
    assert settings.store_options == {"endpoint": "http://127.0.0.1:1", "secret-key": "a secret"}
    assert "secret" not in repr(settings)
    wrong = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"s3.acess-key": "k"}))
    wrong.from_sequence(1, 3).sink_to(row_sink())
    with pytest.raises(ConfigurationError, match=r"'s3\.acess-key'; known are s3\.access-key"):
        wrong.execute()


@pytest.mark.parametrize("kind", ["directory", "object store"])
def test_hundreds_of_parts_end_at_once_with_few_files_open(objects: MemoryObjects, tmp_path: Path, kind: str) -> None:
    """As they do when a job ends, or when all that began in the same hour is due."""
    builder = FileSink.for_row_format(URI if kind == "object store" else tmp_path, Encoder.simple_string_encoder())
    job = Job(builder.with_bucket_assigner(WholeValue()).with_rolling_policy(SLOW).build())
    for epoch in range(10):
        job.epoch_of([f"{epoch}-{n}" for n in range(20)], now=epoch)
    with few_files(60):
        job.epoch_of([], now=10, end=True)
    found = visible(objects) if kind == "object store" else list(tmp_path.glob("*/part-*"))
    assert len(found) == 200
