"""Sources and sinks of our own: splits, printing, collecting, functions."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import threading
from typing import Any

import pytest

from tests.unit.connectors.sink_epochs import context, run_epoch
from tidemill.common import Row
from tidemill.connectors.collect import CollectedResults, CollectSink
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.function_sink import FunctionSink
from tidemill.connectors.print_sink import PrintSink, changelog_text
from tidemill.connectors.ranges import cut_range
from tidemill.connectors.sinks import Committed
from tidemill.connectors.sources import Split, SplitSource
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.datastream.functions import RuntimeContext, SinkFunction
from tidemill.errors import GraphError


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
        sink = PrintSink(to_text=changelog_text)
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
        reader.join(60)
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
