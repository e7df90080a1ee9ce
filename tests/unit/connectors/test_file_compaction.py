"""Compaction: finished files of a bucket become one before readers see them, whatever dies meanwhile."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory_objects import URI, MemoryObjects
from tests.unit.connectors.sink_epochs import Job, context
from tidemill.common import Encoder
from tidemill.common.serialization import BulkWriter, BulkWriterFactory
from tidemill.connectors.sinks import Committed
from tidemill.datastream.connectors.file_system import (
    BucketAssigner,
    ConcatFileCompactor,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RecordWiseFileCompactor,
    RollingPolicy,
)
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.errors import CheckpointError, ConnectorError, GraphError

CONCAT = FileCompactor.concat_file_compactor()
EACH_CHECKPOINT = RollingPolicy.on_checkpoint_rolling_policy()


def text_lines(stream: BinaryIO) -> Iterator[str]:
    for line in stream:
        yield line.decode().removesuffix("\n")


def every(checkpoints: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().enable_compaction_on_checkpoint(checkpoints).build()


def at_size(size: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().set_size_threshold(size).build()


class ByFirstLetter(BucketAssigner):
    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return str(value[0])


def sink(
    path: Path | str,
    strategy: FileCompactStrategy,
    compactor: FileCompactor = CONCAT,
    policy: RollingPolicy = EACH_CHECKPOINT,
    compression: str | None = None,
    buckets: BucketAssigner | None = None,
) -> FileSink:
    builder = FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_rolling_policy(policy)
    builder.with_bucket_assigner(buckets or BucketAssigner.base_path_bucket_assigner())
    builder.with_output_file_config(OutputFileConfig("part", ".txt"))
    if compression is not None:
        builder.with_compression(compression)
    return builder.enable_compact(strategy, compactor).build()


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def visible(found: dict[str, bytes]) -> dict[str, str]:
    return {
        name: data.decode() for name, data in found.items() if not any(part.startswith(".") for part in name.split("/"))
    }


def words_of(found: dict[str, bytes]) -> list[str]:
    return sorted("".join(visible(found).values()).split())


class Upper(BulkWriterFactory[Any]):
    """A format whose files cannot be merged."""

    def create(self, stream: Any) -> BulkWriter[Any]:
        return _Upper(stream)


class _Upper(BulkWriter[Any]):
    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def add_element(self, element: Any) -> None:
        self.stream.write(f"{element.upper()}\n".encode())

    def finish(self) -> None:
        pass


class TestWhen:
    def test_after_a_number_of_checkpoints(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(3)))
        for n in range(7):
            job.epoch_of([n], now=n)
        assert sorted(visible(files(tmp_path)).values()) == ["0\n1\n2\n", "3\n4\n5\n"]
        assert all(name.startswith("compacted-part-") for name in visible(files(tmp_path)))
        assert len(files(tmp_path)) == 3  # the originals are gone, and one waits
        job.epoch_of([], now=8, end=True)
        assert sorted(files(tmp_path).values()) == [b"0\n1\n2\n", b"3\n4\n5\n", b"6\n"]

    def test_checkpoints_without_records_count(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(3)), interval=100)
        job.epoch_of(["a"], now=0)
        assert job.writer.due() == 100
        job.epoch_of([], now=50)  # no checkpoint
        job.epoch_of([], now=100)
        assert visible(files(tmp_path)) == {}
        job.epoch_of([], now=200)
        assert list(visible(files(tmp_path)).values()) == ["a\n"]
        assert job.writer.due() is None

    def test_without_an_interval_a_quiet_stream_does_not_wait_for_ever(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(10)))
        job.epoch_of(["a"], now=0)
        job.epoch_of(["b"], now=5)
        assert job.writer.due() == 60_005
        job.epoch_of([], now=60_005)
        assert list(visible(files(tmp_path)).values()) == ["a\nb\n"]

    def test_at_a_size(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, at_size(10)))
        for n in range(4):
            job.epoch_of([f"abc{n}"], now=n)
        assert list(files(tmp_path).values()) == [b"abc0\nabc1\n", b"abc2\nabc3\n"]
        job.epoch_of(["e" * 20], now=5)  # large enough by itself: it gets only its name
        assert len(visible(files(tmp_path))) == 3
        job.epoch_of(["f"], now=6)
        assert job.writer.due() is None
        assert len(visible(files(tmp_path))) == 3

    def test_files_that_are_finished_by_their_size_in_the_middle_of_an_epoch(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(1), policy=RollingPolicy.default_rolling_policy(5, 100, 100)))
        job.writer.begin_epoch(context(1))
        for text in ("abcd", "efgh", "x"):
            job.writer.write([text], None)
        job.last = [Committed(1, 0, job.writer.prepare_commit())]
        job.prepared = list(job.writer.snapshot_state(1))
        job.commit()
        assert list(visible(files(tmp_path)).values()) == ["abcd\nefgh\n"]
        job.epoch_of(["y"], now=100)
        assert sorted(files(tmp_path).values()) == [b"abcd\nefgh\n", b"x\ny\n"]

    def test_parts_that_grow_and_are_merged_in_the_epoch_that_finishes_them(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(2), policy=RollingPolicy.default_rolling_policy(100, 3, 3)))
        for n in range(8):
            job.epoch_of([n], now=n)
        job.epoch_of([], now=9, end=True)
        found = visible(files(tmp_path))
        assert sorted("".join(found.values()).split()) == [str(n) for n in range(8)]
        assert files(tmp_path).keys() == found.keys()


class TestHow:
    @pytest.mark.parametrize("compression", [None, "gzip"])
    def test_a_delimiter_is_between_the_files(self, tmp_path: Path, compression: str | None) -> None:
        job = Job(sink(tmp_path, every(3), ConcatFileCompactor(b"--\n"), compression=compression))
        for n in range(3):
            job.epoch_of([n], now=n)
        (data,) = files(tmp_path).values()
        assert (data if compression is None else gzip.decompress(data)) == b"0\n--\n1\n--\n2\n"

    @pytest.mark.parametrize("compression", [None, "gzip", "zstd", "bz2", "lz4"])
    def test_record_by_record(self, tmp_path: Path, compression: str | None) -> None:
        def without_ones(stream: BinaryIO) -> Iterator[str]:
            yield from (line for line in text_lines(stream) if line != "1")

        job = Job(sink(tmp_path, every(3), RecordWiseFileCompactor(without_ones), compression=compression))
        for n in range(3):
            job.epoch_of([n, "x"], now=n)
        ((name, data),) = files(tmp_path).items()
        with (tmp_path / name).open("rb") as raw:
            text = data if compression is None else pa.input_stream(raw, compression=compression).read()
        assert text == b"0\nx\nx\n2\nx\n"

    def test_parquet_files_become_one_valid_file(self, tmp_path: Path) -> None:
        builder = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type("id LONG"))
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        job = Job(builder.enable_compact(every(3), FileCompactor.identical_file_compactor()).build())
        for n in range(3):
            job.epoch_of([(n,)], now=n)
        ((name, data),) = files(tmp_path).items()
        assert name.startswith("compacted-part-")
        assert pq.read_table(io.BytesIO(data))["id"].to_pylist() == [0, 1, 2]

    def test_a_format_that_cannot_be_merged_is_rewritten_record_by_record(self, tmp_path: Path) -> None:
        builder = FileSink.for_bulk_format(tmp_path, Upper())
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        with pytest.raises(GraphError, match="use a RecordWiseFileCompactor"):
            builder.enable_compact(every(2), CONCAT).build()
        job = Job(builder.enable_compact(every(2), RecordWiseFileCompactor(text_lines)).build())
        for text in "ab":
            job.epoch_of([text], now=0)
        assert list(files(tmp_path).values()) == [b"A\nB\n"]

    def test_what_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="without one, no file would ever become visible"):
            FileCompactStrategy.builder().build()
        with pytest.raises(ValueError, match="number of checkpoints must be positive"):
            every(0)
        bulk = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type("id LONG"))
        with pytest.raises(GraphError, match="cannot have a delimiter"):
            bulk.enable_compact(every(2), ConcatFileCompactor(b",")).build()
        with pytest.raises(TypeError, match="a FileCompactor is needed"):
            bulk.enable_compact(every(2), "concat")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a FileCompactStrategy is needed"):
            bulk.enable_compact(CONCAT, CONCAT)  # type: ignore[arg-type]
        assert bulk.disable_compact().build().settings.compaction is None


class TestState:
    def test_after_a_rescale_one_subtask_merges_the_files_of_two(self, tmp_path: Path) -> None:
        made = sink(tmp_path, every(2))
        states: list[str] = []
        for subtask in range(2):
            writer = made.create_writer(subtask, 2)
            writer.begin_epoch(context(1, subtask))
            writer.write([f"of {subtask}"], None)
            made.create_committer().commit([Committed(1, subtask, writer.prepare_commit())])
            states += writer.snapshot_state(1)
        writer = made.restore_writer(0, 1, states)  # type: ignore[attr-defined]
        writer.begin_epoch(context(2))
        made.create_committer().commit([Committed(2, 0, writer.prepare_commit())])
        assert list(files(tmp_path).values()) == [b"of 0\nof 1\n"]

    def test_waiting_files_become_visible_as_they_are_when_compaction_is_disabled(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(10)))
        for n in range(2):
            job.epoch_of([n], now=n)
        builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).disable_compact()
        job.sink = builder.with_rolling_policy(EACH_CHECKPOINT).build()
        job.restart()
        job.epoch_of([2], now=2)
        assert sorted(visible(files(tmp_path)).values()) == ["0\n", "1\n", "2\n"]
        assert files(tmp_path).keys() == visible(files(tmp_path)).keys()

    def test_a_waiting_file_that_was_removed_is_an_error_before_the_commit(self, tmp_path: Path) -> None:
        job = Job(sink(tmp_path, every(2)))
        job.epoch_of(["a"], now=0)
        (waiting,) = tmp_path.iterdir()
        waiting.unlink()
        with pytest.raises(FileNotFoundError, match=r"kept does not exist"):
            job.run([], 1)
        with pytest.raises(CheckpointError, match=r"kept is gone"):
            job.sink.restore_writer(0, 1, job.state)  # type: ignore[attr-defined]


#: What the job of a story writes, an epoch each, to three buckets.
STORY = [["a0", "b0"], ["a1"], ["a2", "c2"], [], ["b4", "a4"], ["a5"]]
#: Policies and strategies: files of one epoch each, and parts that grow before they wait.
KINDS = {
    "each checkpoint": (EACH_CHECKPOINT, every(2)),
    "growing": (RollingPolicy.default_rolling_policy(100, 250, 250), every(3)),
    "by size": (EACH_CHECKPOINT, at_size(6)),
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


@kinds
@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "when it is done"])
def test_a_death_at_any_request_loses_and_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: str, after: bool
) -> None:
    """A process that dies takes nothing along and cleans up nothing; another one resumes from what is committed."""
    policy, strategy = KINDS[kind]
    died_at = 0
    while True:
        died_at += 1
        objects = MemoryObjects(monkeypatch)
        objects.die_at, objects.after = died_at, after
        job = Job(sink(URI, strategy, policy=policy, buckets=ByFirstLetter()))

        def look(objects: MemoryObjects = objects, job: Job = job) -> None:
            """After each request: nothing is seen that is not committed, and nothing twice."""
            assert set(words_of(objects.files())) <= {word for words in STORY[: job.epoch] for word in words}
            assert len(words_of(objects.files())) == len(set(words_of(objects.files())))

        objects.look = look
        for n, words in enumerate([*STORY, []]):
            end = n == len(STORY)
            try:
                job.run(words, n * 100, end=end)
            except ConnectorError:
                go_on(objects, job)
                job.run(words, n * 100, end=end, attempt="b")
            try:
                job.commit()
            except ConnectorError:
                go_on(objects, job)
        if died_at > len(objects.requests):
            break
        job.restart()
        assert words_of(objects.files()) == sorted(word for words in STORY for word in words), died_at
        assert objects.files().keys() == visible(objects.files()).keys(), died_at
    assert died_at > 20
    assert "copy" in objects.requests


def go_on(objects: MemoryObjects, job: Job) -> None:
    """The process is dead: what it has open goes with it, and another one starts."""
    assert objects.dead
    job.writer.close()
    objects.revive()
    job.restart()


@kinds
@pytest.mark.parametrize("kill_at", ["prepared", "published", "deleting", "committed"])
def test_a_crash_at_any_point_in_a_directory(tmp_path: Path, kind: str, kill_at: str) -> None:
    policy, strategy = KINDS[kind]
    for killed in range(len(STORY)):
        folder = tmp_path / str(killed)
        job = Job(sink(folder, strategy, policy=policy, buckets=ByFirstLetter()))
        for n, words in enumerate(STORY):
            if n == killed:
                job.run(["never"] if kill_at == "prepared" else words, n * 100, attempt="dead")
                if kill_at == "committed":
                    job.commit()
                elif kill_at != "prepared":
                    job.epoch += 1
                    job.state = job.prepared
                if kill_at == "deleting":  # everything has its name, and nothing that was merged is deleted yet
                    committer = job._committer()
                    committer._store.delete = lambda names: None  # type: ignore[attr-defined]
                    committer.commit(job.last)
                job.restart()
            if n != killed or kill_at == "prepared":
                job.epoch_of(words, n * 100)
        job.epoch_of([], 1000, end=True)
        found = visible(files(folder))
        assert words_of(files(folder)) == sorted(word for words in STORY for word in words), killed
        assert files(folder).keys() == found.keys(), killed
