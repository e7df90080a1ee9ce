"""The file sink: what readers see, and when; what is left behind; what is refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.connectors.sink_epochs import Job, context, run_epoch
from tidemill.common import Configuration, Encoder, Row
from tidemill.common.constants import MAX_LONG_VALUE
from tidemill.common.serialization import BulkWriter, BulkWriterFactory
from tidemill.connectors.sinks import Committed, CommitterContext, WriterContext
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from tidemill.datastream.formats.orc import OrcBulkWriters
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.errors import CheckpointError, GraphError, TypeMismatchError


def files_below(path: Path) -> dict[str, str]:
    return {str(one.relative_to(path)): one.read_text() for one in sorted(path.rglob("*")) if one.is_file()}


def visible(path: Path) -> dict[str, str]:
    return {name: text for name, text in files_below(path).items() if not Path(name).name.startswith(".")}


class TestFiles:
    def sink(self, path: Path, **kwargs: Any) -> FileSink:
        builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
        builder.with_bucket_assigner(kwargs.get("buckets", BucketAssigner.base_path_bucket_assigner()))
        builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        return builder.with_rolling_policy(RollingPolicy.on_epoch_rolling_policy()).build()

    def test_a_reader_sees_committed_data_only(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        epoch = run_epoch(sink, 3, "ab", "c")
        assert visible(tmp_path) == {}
        assert len(files_below(tmp_path)) == 2
        sink.create_committer().commit(epoch)
        names = visible(tmp_path)
        assert list(names.values()) == ["a\nb\n", "c\n"]
        assert [name.split("-", 2)[2] for name in names] == ["0-3.txt", "1-3.txt"]
        assert names == files_below(tmp_path)

    def test_committing_again_changes_nothing(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        epoch = run_epoch(sink, 1, "a")
        committer = sink.create_committer()
        committer.commit(epoch)
        before = files_below(tmp_path)
        sink.create_committer().commit(epoch)
        assert files_below(tmp_path) == before

    def test_a_second_attempt_takes_the_place_of_the_first(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        run_epoch(sink, 1, "x", attempt="lost")
        sink.create_committer().commit(run_epoch(sink, 1, "a", attempt="kept"))
        assert list(visible(tmp_path).values()) == ["a\n"]

    def test_leftovers_are_discarded_but_not_what_is_still_to_be_committed(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        run_epoch(sink, 1, "x", attempt="lost")
        pending = run_epoch(sink, 2, "a")
        other = tmp_path / ".part-00000000-0-1.txt-a9.inprogress"
        other.write_text("another job's")
        committer = sink.create_committer()
        committer.open(CommitterContext("job", "sink"))
        committer.discard(pending[0].committables, "lineage")
        assert len(files_below(tmp_path)) == 2
        assert other.exists()
        committer.commit(pending)
        assert list(visible(tmp_path).values()) == ["a\n"]

    def test_what_a_newer_lineage_has_prepared_is_not_discarded(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        pending = run_epoch(sink, 2, "a")
        committer = sink.create_committer()
        committer.open(CommitterContext("job", "sink"))
        committer.discard((), "lineag")  # an older one, whose driver was taken over just after it had claimed the job
        committer.commit(pending)
        assert list(visible(tmp_path).values()) == ["a\n"]

    def test_an_epoch_that_is_run_again_drops_what_the_last_one_left(self, tmp_path: Path) -> None:
        writer = self.sink(tmp_path).create_writer(0, 1)
        writer.begin_epoch(context(1))
        writer.write(["x"], None)
        writer.begin_epoch(context(1, attempt="a2"))
        assert files_below(tmp_path) == {}
        writer.write(["x"], None)
        writer.close()
        assert files_below(tmp_path) == {}

    def test_other_sinks_write_other_files(self, tmp_path: Path) -> None:
        for job in ("one", "two"):
            sink = self.sink(tmp_path)
            writer = sink.create_writer(0, 1)
            writer.begin_epoch(WriterContext(job, "sink", 0, 1, "l", 1, "a"))
            writer.write([job], None)
            sink.create_committer().commit([Committed(1, 0, writer.prepare_commit())])
        assert sorted(visible(tmp_path).values()) == ["one\n", "two\n"]

    def test_a_lost_file_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        epoch = run_epoch(sink, 1, "a")
        for file in tmp_path.iterdir():
            file.unlink()
        with pytest.raises(CheckpointError, match=r"epoch 1 .*inprogress"):
            sink.create_committer().commit(epoch)

    def test_committables_that_point_elsewhere_are_refused(self, tmp_path: Path) -> None:
        committer = self.sink(tmp_path).create_committer()
        for data in (
            {"version": 1, "hidden": "../x", "final": "y"},
            {"version": 1, "hidden": "x", "final": "/etc/passwd"},
            {"version": 2, "hidden": "x", "final": "y", "drop": ["../z"]},
            {"version": 3, "hidden": "x", "final": "y"},
        ):
            with pytest.raises(CheckpointError):
                committer.commit([Committed(1, 0, [json.dumps(data).encode()])])

    def test_nothing_written_leaves_nothing(self, tmp_path: Path) -> None:
        assert run_epoch(self.sink(tmp_path), 1, [])[0].committables == []
        assert files_below(tmp_path) == {}

    def test_buckets_by_hour(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path, buckets=BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd/HH", "UTC"))
        writer = sink.create_writer(0, 1)
        writer.begin_epoch(context(1, time=3_600_000))
        writer.write(["a"], None)
        sink.create_committer().commit([Committed(1, 0, writer.prepare_commit())])
        (name,) = visible(tmp_path)
        assert name.startswith("1970-01-01/01/part-")

    def test_buckets_of_ones_own(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path, buckets=ByFirstLetter())
        sink.create_committer().commit(run_epoch(sink, 1, ["ab", "cd", "ac"]))
        assert {Path(name).parent.name: text for name, text in visible(tmp_path).items()} == {
            "a": "ab\nac\n",
            "c": "cd\n",
        }

    @pytest.mark.parametrize("before", ["../", "/etc/", "x/../../"])
    def test_a_bucket_cannot_leave_the_directory(self, tmp_path: Path, before: str) -> None:
        with pytest.raises(GraphError, match="below the sink's directory"):
            run_epoch(self.sink(tmp_path / "in", buckets=ByFirstLetter(before)), 1, ["ab"])
        assert not list(tmp_path.rglob("*"))

    @pytest.mark.parametrize("before", [".", "_", "x/.y/"])
    def test_a_bucket_that_readers_would_not_see_is_refused(self, tmp_path: Path, before: str) -> None:
        with pytest.raises(GraphError, match="hidden from readers"):
            run_epoch(self.sink(tmp_path / "in", buckets=ByFirstLetter(before)), 1, ["ab"])
        assert not list(tmp_path.rglob("*"))
        sink = self.sink(tmp_path, buckets=ByFirstLetter("_day="))
        sink.create_committer().commit(run_epoch(sink, 1, ["ab"]))
        assert list(visible(tmp_path).values()) == ["ab\n"]

    def test_a_bucket_cannot_leave_the_directory_by_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "in" / "a").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(GraphError, match=r"leads to .*elsewhere"):
            run_epoch(self.sink(tmp_path / "in", buckets=ByFirstLetter()), 1, ["ab"])
        assert not list((tmp_path / "elsewhere").iterdir())

    def test_a_bucket_is_a_text(self, tmp_path: Path) -> None:
        class Numbers(BucketAssigner):
            def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> Any:
                return 7

        writer = self.sink(tmp_path, buckets=Numbers()).create_writer(0, 1)
        writer.begin_epoch(context(1))
        with pytest.raises(TypeError, match="a string, not int 7"):
            writer.write(["a"], None)

    def test_a_sink_whose_directory_is_a_file_is_refused_at_the_start(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("mine")
        with pytest.raises(GraphError, match=r"out is a file"):
            self.sink(tmp_path / "out").create_committer().open(CommitterContext("job", "sink"))
        assert (tmp_path / "out").read_text() == "mine"

    def test_a_full_disk_is_an_error_that_names_the_file(self, tmp_path: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("needs /dev/full")
        writer = self.sink(tmp_path).create_writer(0, 1)
        writer.begin_epoch(context(1))
        writer.write(["a"], None)
        (hidden,) = tmp_path.iterdir()
        file = next(iter(writer._parts.values())).current  # type: ignore[attr-defined]
        os.dup2(os.open("/dev/full", os.O_WRONLY), file.draft.stream.fileno())
        with pytest.raises(OSError, match=rf"No space left.*{hidden.name}"):
            writer.prepare_commit()
        writer.close()
        assert files_below(tmp_path) == {}

    def test_another_start_of_the_job_overwrites_nothing(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        for history, text in (("h1", "first"), ("h2", "second")):
            writer = sink.create_writer(0, 1)
            writer.begin_epoch(WriterContext("job", "sink", 0, 1, "l", 1, "a", 0, history))
            writer.write([text], None)
            sink.create_committer().commit([Committed(1, 0, writer.prepare_commit())])
        assert sorted(visible(tmp_path).values()) == ["first\n", "second\n"]

    def test_committables_of_the_first_version_are_still_committed(self, tmp_path: Path) -> None:
        (tmp_path / ".x.inprogress").write_text("a")
        old = json.dumps({"version": 1, "hidden": ".x.inprogress", "final": "x"}).encode()
        self.sink(tmp_path).create_committer().commit([Committed(1, 0, [old], again=True)])
        assert visible(tmp_path) == {"x": "a"}

    def test_paths_of_other_storages_are_refused(self) -> None:
        for path in ("hdfs://host/x", "http://host/x", "s3:bucket", "s3://"):
            with pytest.raises(GraphError, match=r"is not a local or mounted directory.*s3://"):
                FileSink.for_row_format(path, Encoder.simple_string_encoder())
        for known in ("file:///tmp/x", "/tmp/x", Path("/tmp/x")):
            assert FileSink.for_row_format(known, Encoder.simple_string_encoder())._base_path == "/tmp/x"

    def test_wrong_settings(self) -> None:
        with pytest.raises(ValueError, match="hidden"):
            OutputFileConfig(".x")
        with pytest.raises(ValueError, match="slash"):
            OutputFileConfig("a/b")
        with pytest.raises(ValueError, match="QQ"):
            BucketAssigner.date_time_bucket_assigner("yyyy-QQ")
        with pytest.raises(ValueError, match="positive"):
            RollingPolicy.default_rolling_policy(part_size=0)


class TestRollingOverEpochs:
    def sink(self, path: Path, policy: RollingPolicy | None = None, **kwargs: Any) -> FileSink:
        builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
        builder.with_bucket_assigner(kwargs.get("buckets", BucketAssigner.base_path_bucket_assigner()))
        if "compression" in kwargs:
            builder.with_compression(kwargs["compression"])
        return builder.with_rolling_policy(policy or RollingPolicy.default_rolling_policy(100, 1000, 500)).build()

    def test_many_small_epochs_become_one_file_when_it_is_old_enough(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path))
        for n in range(5):
            job.epoch_of([f"line {n}"], now=n * 200)
            assert visible(tmp_path) == {}
        assert job.writer.due() == 1000
        job.epoch_of(["line 5"], now=1000)
        assert list(visible(tmp_path).values()) == ["".join(f"line {n}\n" for n in range(6))]
        assert files_below(tmp_path) == visible(tmp_path)
        assert job.writer.due() is None

    def test_a_part_that_gets_nothing_is_finished_without_input(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path))
        job.epoch_of(["a"], now=0)
        assert job.writer.due() == 500
        job.epoch_of([], now=499)
        assert visible(tmp_path) == {}
        job.epoch_of([], now=500)
        assert list(visible(tmp_path).values()) == ["a\n"]

    def test_a_full_part_is_finished_in_the_middle_of_an_epoch(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path))
        job.epoch_of(["x" * 60], now=0)
        job.writer.begin_epoch(context(2, time=1))
        for text in ("y" * 50, "z"):
            job.writer.write([text], None)
        job.last = [Committed(2, 0, job.writer.prepare_commit())]
        job.prepared = list(job.writer.snapshot_state(2))
        job.commit()
        assert list(visible(tmp_path).values()) == ["x" * 60 + "\n" + "y" * 50 + "\n"]
        job.epoch_of([], now=2, end=True)
        assert max(visible(tmp_path).values()) == "z\n"

    def test_the_end_of_the_input_finishes_everything(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path, buckets=ByFirstLetter()))
        job.epoch_of(["a1", "b1"], now=0)
        job.epoch_of(["a2"], now=1, end=True)
        assert sorted(visible(tmp_path).values()) == ["a1\na2\n", "b1\n"]
        assert files_below(tmp_path) == visible(tmp_path)
        assert job.state == []

    def test_a_part_has_few_segments_however_many_epochs_it_takes(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path, RollingPolicy.default_rolling_policy(1 << 20, 1 << 40, 1 << 40)))
        for n in range(200):
            job.epoch_of([f"line {n}"], now=n)
            assert len(files_below(tmp_path)) <= 9
        job.epoch_of([], now=201, end=True)
        assert list(visible(tmp_path).values()) == ["".join(f"line {n}\n" for n in range(200))]
        assert files_below(tmp_path) == visible(tmp_path)

    @pytest.mark.parametrize("kill_at", ["written", "prepared", "published", "committed"])
    def test_a_crash_at_any_point_of_any_epoch_changes_nothing(self, tmp_path: Path, kill_at: str) -> None:
        for killed in range(6):
            folder = tmp_path / str(killed)
            job = Job(self.sink(folder))
            for n in range(6):
                if n == killed:
                    if kill_at == "written":
                        job.writer.begin_epoch(context(job.epoch + 1, attempt="dead", time=n * 200))
                        job.writer.write(["never"], None)
                        job.writer._hidden = []  # a killed process cleans up nothing
                        for part in job.writer._parts.values():
                            if part.current is not None:
                                part.current.draft.stream.close()
                                part.current = None
                        job.last = job.last or [Committed(0, 0, [])]
                    elif kill_at == "prepared":
                        job.run(["never"], n * 200, attempt="dead")
                    else:
                        job.run([f"line {n}"], n * 200)
                        if kill_at == "committed":
                            job.commit()
                        else:
                            job.epoch += 1
                            job.state = job.prepared
                    job.restart()
                if n != killed or kill_at in ("written", "prepared"):
                    job.epoch_of([f"line {n}"], n * 200)
            job.epoch_of([], 5000, end=True)
            text = "".join(visible(folder)[name] for name in sorted(visible(folder)))
            assert text == "".join(f"line {n}\n" for n in range(6)), (killed, kill_at)
            assert files_below(folder) == visible(folder), (killed, kill_at)

    def test_after_a_rescale_one_subtask_continues_with_the_parts_of_two(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        states: list[str] = []
        for subtask in range(2):
            writer = sink.create_writer(subtask, 2)
            writer.begin_epoch(context(1, subtask, time=subtask))
            writer.write([f"of {subtask}"], None)
            sink.create_committer().commit([Committed(1, subtask, writer.prepare_commit())])
            states += writer.snapshot_state(1)
        writer = sink.restore_writer(0, 1, states)  # type: ignore[attr-defined]
        writer.begin_epoch(context(2, time=10))
        writer.write_watermark(MAX_LONG_VALUE)
        sink.create_committer().commit([Committed(2, 0, writer.prepare_commit())])
        assert list(visible(tmp_path).values()) == ["of 0\nof 1\n"]
        assert files_below(tmp_path) == visible(tmp_path)

    def test_a_state_whose_parts_were_finished_since_is_refused(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path))
        job.epoch_of(["a"], now=0)
        old = job.state
        job.epoch_of([], now=1, end=True)
        with pytest.raises(CheckpointError, match=r"kept is gone. The part was finished by a later epoch"):
            job.sink.restore_writer(0, 1, old)  # type: ignore[attr-defined]

    def test_compressed_parts_grow_too(self, tmp_path: Path) -> None:
        job = Job(self.sink(tmp_path, compression="gzip"))
        for n in range(3):
            job.epoch_of([f"line {n}"], now=n, end=n == 2)
        (path,) = tmp_path.iterdir()
        assert path.name.endswith(".gz")
        assert gzip.decompress(path.read_bytes()) == b"line 0\nline 1\nline 2\n"

    @pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
    def test_a_job_of_small_epochs_leaves_one_file_for_each_subtask(self, tmp_path: Path, mode: str) -> None:
        options = {"execution.target": "local", "execution.epoch.max-records": "10", "execution.runtime-mode": mode}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        env.from_sequence(1, 100).map(str).sink_to(self.sink(tmp_path, SLOW))
        env.execute("files")
        assert len(files_below(tmp_path)) == 2
        lines = "".join(visible(tmp_path).values()).split()
        assert sorted(map(int, lines)) == list(range(1, 101))


class TestFormats:
    @pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd", "lz4"])
    def test_rows_are_compressed(self, tmp_path: Path, codec: str) -> None:
        builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).with_compression(codec)
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        sink = builder.with_rolling_policy(RollingPolicy.on_epoch_rolling_policy()).build()
        sink.create_committer().commit(run_epoch(sink, 1, ["a", "b"]))
        (path,) = tmp_path.iterdir()
        with pa.input_stream(str(path), compression=codec) as stream:
            assert stream.read() == b"a\nb\n"

    def test_an_unknown_codec_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="'zip' is not one of gzip"):
            FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).with_compression("zip")
        with pytest.raises(ValueError, match="zip"):
            ParquetBulkWriters.for_row_type("id INT", compression="zip")

    def bulk(self, path: Path, factory: BulkWriterFactory[Any]) -> Any:
        builder = FileSink.for_bulk_format(str(path), factory)
        return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())

    @pytest.mark.parametrize("kind", ["parquet", "orc"])
    def test_columns_of_one_epoch_and_of_many(self, tmp_path: Path, kind: str) -> None:
        writers: Any = ParquetBulkWriters if kind == "parquet" else OrcBulkWriters
        factory = writers.for_row_type("id LONG, name STRING", compression="zstd")
        job = Job(self.bulk(tmp_path / "one", factory).build())
        job.epoch_of([Row(id=1, name="a"), (2, None)], now=0)
        job.epoch_of([{"id": 3, "name": "c"}], now=1)
        assert len(files_below_bytes(tmp_path / "one")) == 2
        job = Job(self.bulk(tmp_path / "many", factory).with_rolling_policy(SLOW).build())
        job.epoch_of([Row(id=1, name="a"), (2, None)], now=0)
        job.epoch_of([{"id": 3, "name": "c"}], now=1, end=True)
        (path,) = files_below_bytes(tmp_path / "many")
        table = pq.read_table(path) if kind == "parquet" else pa.orc.read_table(path)
        assert table.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]

    def test_a_record_that_does_not_fit_is_shown_with_its_column(self, tmp_path: Path) -> None:
        sink = self.bulk(tmp_path, ParquetBulkWriters.for_row_type("id INT, name STRING")).build()
        writer = sink.create_writer(0, 1)
        writer.begin_epoch(context(1))
        with pytest.raises(TypeMismatchError, match=r"column 'id' is INT, which 'x' does not fit.*\('x', 'b'\)"):
            writer.write([(1, "a"), ("x", "b")], None)
        writer.close()

    def test_a_format_whose_files_cannot_be_made_one_ends_with_its_epoch(self, tmp_path: Path) -> None:
        builder = self.bulk(tmp_path, CountsRecords())
        sink = builder.build()
        sink.create_committer().commit(run_epoch(sink, 1, ["a", "b"]))
        assert list(visible(tmp_path).values()) == ["2 records"]
        with pytest.raises(GraphError, match="cannot span epochs"):
            builder.with_rolling_policy(SLOW).build()


SLOW = RollingPolicy.default_rolling_policy(1 << 20, 1 << 40, 1 << 40)


class CountsRecords(BulkWriterFactory[Any]):
    def create(self, stream: Any) -> BulkWriter[Any]:
        return _Count(stream)


class _Count(BulkWriter[Any]):
    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.count = 0

    def add_element(self, element: Any) -> None:
        self.count += 1

    def finish(self) -> None:
        self.stream.write(f"{self.count} records".encode())


def files_below_bytes(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file())


class ByFirstLetter(BucketAssigner):
    def __init__(self, before: str = "") -> None:
        self.before = before

    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return self.before + str(value[0])


def test_files_that_were_taken_away_do_not_keep_a_job_from_starting_again(tmp_path: Path) -> None:
    def run() -> None:
        options = {
            "execution.target": "local",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.job-id": "job",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        env.from_sequence(1, 20).map(str).sink_to(sink)
        env.execute("files")

    def shown() -> list[Path]:
        return [path for path in (tmp_path / "out").rglob("*") if path.is_file()]

    run()
    assert shown()
    for path in shown():
        path.unlink()
    run()  # the finished job looks once more whether its last files are in place
    assert shown() == []
