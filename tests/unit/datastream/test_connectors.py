"""Sources and sinks of our own: splits, printing, collecting, files, functions."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Configuration, Encoder, Row
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.collect import CollectedResults, CollectSink
from tidemill.datastream.connectors.collection import CollectionSource
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from tidemill.datastream.connectors.function_sink import FunctionSink
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.datastream.connectors.print_sink import PrintSink
from tidemill.datastream.connectors.ranges import cut_range
from tidemill.datastream.functions import RuntimeContext, SinkFunction
from tidemill.datastream.sinks import Committed, CommitterContext, Sink, WriterContext
from tidemill.datastream.sources import Split, SplitSource
from tidemill.errors import CheckpointError, GraphError


def read_all(source: SplitSource, position: Any, parallelism: int, max_records: int) -> list[list[list[Any]]]:
    """Values by epoch and subtask."""
    enumerator = source.create_enumerator(position)
    worker: SplitSource = pickle.loads(pickle.dumps(source))
    epochs = []
    while not enumerator.finished:
        splits = pickle.loads(pickle.dumps(enumerator.next_splits(parallelism, max_records)))
        assert len(splits) <= parallelism
        assert json.loads(json.dumps(enumerator.position())) == enumerator.position()
        epochs.append([[value for batch in worker.read(split) for value in batch.values] for split in splits])
        assert [len(values) for values in epochs[-1]] == [split.records for split in splits]
    return epochs


class TestSources:
    def test_ranges(self) -> None:
        assert cut_range(0, 10, 3) == [(0, 4), (4, 7), (7, 10)]
        assert cut_range(0, 2, 5) == [(0, 1), (1, 2)]
        assert cut_range(3, 3, 5) == []

    def test_collection(self) -> None:
        assert read_all(CollectionSource("abcde"), None, 1, 2) == [[["a", "b"]], [["c", "d"]], [["e"]]]
        assert read_all(CollectionSource("abcde"), 3, 1, 10) == [[["d", "e"]]]
        assert read_all(CollectionSource([]), None, 1, 10) == []

    def test_a_collection_stays_on_the_driver(self) -> None:
        source = CollectionSource(range(100_000))
        assert len(pickle.dumps(source)) < 1000
        with pytest.raises(GraphError, match="stays on the driver"):
            pickle.loads(pickle.dumps(source)).create_enumerator(None)

    def test_numbers(self) -> None:
        assert read_all(NumberSequenceSource(1, 10), None, 2, 6) == [[[1, 2, 3], [4, 5, 6]], [[7, 8], [9, 10]]]
        assert read_all(NumberSequenceSource(1, 10), 9, 4, 6) == [[[9], [10]]]
        assert read_all(NumberSequenceSource(5, 5), None, 4, 6) == [[[5]]]

    def test_long_splits_come_in_batches(self) -> None:
        source = NumberSequenceSource(0, 19_999)
        split = source.create_enumerator(None).next_splits(1, 50_000)[0]
        assert isinstance(split, Split)
        assert [len(batch.values) for batch in source.read(split)] == [8192, 8192, 3616]

    def test_an_empty_sequence_is_refused(self) -> None:
        with pytest.raises(ValueError, match="from 3 to 2"):
            NumberSequenceSource(3, 2)


def context(epoch: int, subtask: int = 0, attempt: str = "a1", time: int | None = 0) -> WriterContext:
    return WriterContext("job", "sink", subtask, 2, "lineage", epoch, attempt, time)


def run_epoch(sink: Sink, epoch: int, *subtasks: Sequence[Any], attempt: str = "a1") -> list[Committed]:
    """One epoch of a sink: written on a worker, not yet committed."""
    worker: Sink = pickle.loads(pickle.dumps(sink))
    out = []
    for subtask, values in enumerate(subtasks):
        writer = worker.create_writer(subtask, len(subtasks))
        writer.begin_epoch(context(epoch, subtask, attempt))
        writer.write(list(values), None)
        out.append(Committed(epoch, subtask, writer.prepare_commit()))
        writer.close()
    return out


class TestPrint:
    def committed(self, sink: PrintSink, *commits: list[Committed]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for commit in commits:
                sink.create_committer().commit(commit)
        return out.getvalue()

    def test_order_is_by_epoch_and_subtask(self) -> None:
        sink = PrintSink("id")
        first, second = run_epoch(sink, 1, "ab", "c"), run_epoch(sink, 2, "d", "")
        assert self.committed(sink, [*second, *reversed(first)]) == "id:1> a\nid:1> b\nid:2> c\nid:1> d\n"

    def test_the_same_epoch_again_prints_nothing(self) -> None:
        sink = PrintSink()
        epoch = run_epoch(sink, 1, "a")
        assert self.committed(sink, epoch, epoch) == "a\n"

    def test_rows(self) -> None:
        row = Row(id="a", n=1)
        assert self.committed(PrintSink(), run_epoch(PrintSink(), 1, [row])) == "Row(id='a', n=1)\n"
        sink = PrintSink(rows_with_kind=True)
        assert self.committed(sink, run_epoch(sink, 1, [row])) == "+I[a,1]\n"

    def test_an_empty_epoch_has_nothing_to_commit(self) -> None:
        assert run_epoch(PrintSink(), 1, [])[0].committables == ()

    @pytest.mark.parametrize(("encoding", "printed"), [("utf-8", b"\\ud800\xc3\xa4\n"), ("ascii", b"\\ud800\\xe4\n")])
    def test_characters_a_terminal_does_not_know(self, encoding: str, printed: bytes) -> None:
        sink = PrintSink()
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with contextlib.redirect_stdout(out):
            sink.create_committer().commit(run_epoch(sink, 1, ["\ud800\u00e4"]))
        assert out.buffer.getvalue() == printed


class TestCollect:
    def test_commit_is_idempotent(self) -> None:
        sink = CollectSink("c")
        first, second = run_epoch(sink, 1, [1, 2], [3]), run_epoch(sink, 2, [4], [])
        committer = sink.create_committer()
        committer.commit(first)
        committer.commit(first)
        sink.create_committer().commit([*first, *second])
        sink.results.finish()
        assert list(sink.results) == [1, 2, 3, 4]

    def test_results_do_not_change_with_the_record(self) -> None:
        sink = CollectSink("c")
        record = [1]
        writer = sink.create_writer(0, 1)
        writer.begin_epoch(context(1))
        writer.write([record], None)
        record.append(2)
        sink.create_committer().commit([Committed(1, 0, writer.prepare_commit())])
        sink.results.finish()
        assert list(sink.results) == [[1]]

    def test_records_of_classes_that_cannot_be_imported(self) -> None:
        class Local:
            def __init__(self, n: int) -> None:
                self.n = n

        sink = CollectSink("c")
        writer = sink.create_writer(0, 1)
        writer.begin_epoch(context(1))
        writer.write([Local(3)], None)
        sink.create_committer().commit([Committed(1, 0, writer.prepare_commit())])
        sink.results.finish()
        (record,) = sink.results
        assert type(record) is Local
        assert record.n == 3

    def test_results_wait_for_more(self) -> None:
        results = CollectedResults()
        seen: list[int] = []
        reader = threading.Thread(target=lambda: seen.extend(results))
        reader.start()
        results.add(1, 0, [1])
        results.add(2, 0, [2])
        results.finish()
        reader.join(10)
        assert seen == [1, 2]

    def test_a_failure_comes_after_what_is_there(self) -> None:
        results = CollectedResults()
        results.add(1, 0, [1])
        results.fail(RuntimeError("boom"))
        iterator = iter(results)
        assert next(iterator) == 1
        with pytest.raises(RuntimeError, match="boom"):
            next(iterator)


class Recorder(SinkFunction):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append("open")

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.calls.append((value, context.timestamp(), context.current_processing_time(), context.current_watermark()))

    def close(self) -> None:
        self.calls.append("close")


def test_function_sink() -> None:
    function = Recorder()
    writer = FunctionSink(function).create_writer(0, 1)
    writer.open(None)  # type: ignore[arg-type]
    writer.begin_epoch(context(1, time=77))
    writer.write(["a", "b"], [5, 6])
    writer.write_watermark(6)
    writer.write(["c"], None)
    assert writer.prepare_commit() == ()
    writer.close()
    lowest = -(1 << 63)
    assert function.calls == ["open", ("a", 5, 77, lowest), ("b", 6, 77, lowest), ("c", None, 77, 6), "close"]


def files_below(path: Path) -> dict[str, str]:
    return {str(one.relative_to(path)): one.read_text() for one in sorted(path.rglob("*")) if one.is_file()}


def visible(path: Path) -> dict[str, str]:
    return {name: text for name, text in files_below(path).items() if not Path(name).name.startswith(".")}


class TestFiles:
    def sink(self, path: Path, **kwargs: Any) -> FileSink:
        builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
        builder.with_bucket_assigner(kwargs.get("buckets", BucketAssigner.base_path_bucket_assigner()))
        builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        if "policy" in kwargs:
            builder.with_rolling_policy(kwargs["policy"])
        return builder.build()

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

    def test_an_epoch_begun_anew_drops_what_the_last_one_left(self, tmp_path: Path) -> None:
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
            {"version": 2, "hidden": "x", "final": "y"},
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

    def test_a_bucket_cannot_leave_the_directory(self, tmp_path: Path) -> None:
        with pytest.raises(GraphError, match="below"):
            run_epoch(self.sink(tmp_path / "in", buckets=ByFirstLetter("../")), 1, ["ab"])

    def test_rolling_by_size(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path, policy=RollingPolicy.default_rolling_policy(part_size=4))
        writer = sink.create_writer(0, 1)
        writer.begin_epoch(context(7))
        for text in ("aaaa", "b", "cccc", "d"):
            writer.write([text], None)
        sink.create_committer().commit([Committed(7, 0, writer.prepare_commit())])
        assert {name.split("-", 2)[2]: text for name, text in visible(tmp_path).items()} == {
            "0-7.txt": "aaaa\n",
            "0-7-1.txt": "b\ncccc\n",
            "0-7-2.txt": "d\n",
        }

    def test_remote_paths_are_refused(self) -> None:
        with pytest.raises(GraphError, match="s3"):
            FileSink.for_row_format("s3://bucket/x", Encoder.simple_string_encoder())
        assert FileSink.for_row_format("file:///tmp/x", Encoder.simple_string_encoder())._base_path == "/tmp/x"

    def test_wrong_settings(self) -> None:
        with pytest.raises(ValueError, match="hidden"):
            OutputFileConfig(".x")
        with pytest.raises(ValueError, match="slash"):
            OutputFileConfig("a/b")
        with pytest.raises(ValueError, match="QQ"):
            BucketAssigner.date_time_bucket_assigner("yyyy-QQ")
        with pytest.raises(ValueError, match="positive"):
            RollingPolicy.default_rolling_policy(part_size=0)


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
