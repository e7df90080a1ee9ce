"""Built-in aggregates over columns and over objects: the same results in the same order, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.common import Configuration, Row, Time, Types, WatermarkStrategy
from tidemill.connectors.sources import Split
from tidemill.datastream import (
    DataStream,
    KeyedStream,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.runtime.operators.columnar import aggregates, kernels
from tidemill.testing.scripted_source import Script, ScriptedSource

#: A record: key, time, number, and a text that differs from record to record.
Record = tuple[str, int, Any, str]
KINDS = {
    "int": (Types.LONG(), pa.int64()),
    "short": (Types.SHORT(), pa.int16()),
    "double": (Types.DOUBLE(), pa.float64()),
}
NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**40), 2**40) | st.sampled_from([2**62, -(2**62)]),
    "short": st.integers(-300, 300),
    "double": st.floats(-1e6, 1e6) | st.sampled_from([0.1, 0.2, -0.0, 0.0, 1e300, float("inf"), float("nan")]),
}
OPERATIONS: dict[str, Callable[[KeyedStream], DataStream]] = {
    "sum": lambda keyed: keyed.sum(2),
    "min": lambda keyed: keyed.min(2),
    "max": lambda keyed: keyed.max(2),
    "min_by": lambda keyed: keyed.min_by(2),
    "max_by": lambda keyed: keyed.max_by(2),
    "count": lambda keyed: keyed.count(),
    "avg": lambda keyed: keyed.avg(2),
}
WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(10)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4)),
}


class Batches(ScriptedSource):
    """Reads each epoch as one batch, of columns or of objects."""

    def __init__(self, script: Script | None, parallelism: int, type_info: Any, kind: str, as_columns: bool) -> None:
        super().__init__(script, parallelism)
        self.type_info = type_info
        self.kind = kind
        self.as_columns = as_columns

    def read(self, split: Split) -> Iterator[Any]:
        if not self.as_columns:
            yield from super().read(split)
            return
        types = [pa.string(), pa.int64(), KINDS[self.kind][1], pa.string()]
        lists = zip(*map(tuple, split.payload), strict=True)
        arrays = [pa.array(one, kind) for one, kind in zip(lists, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["k", "t", "n", "x"])

    def __reduce__(self) -> tuple[Any, ...]:
        return Batches, (None, self.parallelism, self.type_info, self.kind, self.as_columns)


def results(
    build: Callable[[KeyedStream], DataStream],
    epochs: list[list[Record]],
    kind: str,
    *,
    as_columns: bool,
    rows: bool = False,
    backend: str = "hashmap",
) -> list[str]:
    fields = [Types.STRING(), Types.LONG(), KINDS[kind][0], Types.STRING()]
    type_info: Any = Types.ROW_NAMED(["k", "t", "n", "x"], fields) if rows else Types.TUPLE(fields)
    script = Script()
    for records in epochs:
        script.add([Row(k=k, t=t, n=n, x=x) for k, t, n, x in records] if rows else records)
    script.ended = True
    settings = {
        "execution.target": "local",
        "parallelism.default": "1",
        "execution.runtime-mode": "STREAMING",
        "state.backend.type": backend,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t" if rows else 1)
    source = Batches(script, 1, type_info, kind, as_columns)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    keyed = stream.assign_timestamps_and_watermarks(by_time).key_by("k" if rows else 0)
    with build(keyed).execute_and_collect() as found:
        return list(map(repr, found))


@st.composite
def inputs(draw: st.DrawFn) -> tuple[str, list[list[Record]]]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    record = st.tuples(st.sampled_from("abc"), st.integers(0, 60), NUMBERS[kind], st.text("xyz", max_size=2))
    return kind, draw(st.lists(st.lists(record, min_size=1, max_size=12), min_size=1, max_size=4))


def attempt(*arguments: Any, **more: Any) -> Any:
    """The results, or the kind of error: a sum that does not fit its declared type is one."""
    try:
        return results(*arguments, **more)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=examples(60))
@given(inputs(), st.booleans())
def test_rolling(operation: str, given_input: tuple[str, list[list[Record]]], rows: bool) -> None:
    kind, epochs = given_input
    expected = attempt(OPERATIONS[operation], epochs, kind, as_columns=False, rows=rows)
    assert attempt(OPERATIONS[operation], epochs, kind, as_columns=True, rows=rows) == expected


@pytest.mark.parametrize("operation", ["sum", "min", "max", "min_by", "max_by"])
@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=examples(40))
@given(inputs())
def test_windows(window: str, operation: str, given_input: tuple[str, list[list[Record]]]) -> None:
    kind, epochs = given_input

    def build(keyed: KeyedStream) -> DataStream:
        windowed = keyed.window(WINDOWS[window])
        stream: DataStream = getattr(windowed, operation)(2)
        return stream

    assert attempt(build, epochs, kind, as_columns=True) == attempt(build, epochs, kind, as_columns=False)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_large_groups_and_rocksdb(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hot key beside many cold ones, and state on disk."""
    epochs = [
        [("hot" if n % 3 else f"k{n % 200}", n, (n * 0.1) * (-1) ** n, str(n)) for n in range(start, start + 1000)]
        for start in (0, 1000, 2000)
    ]
    expected = results(OPERATIONS[operation], epochs, "double", as_columns=False)
    calls = []
    original = kernels.Sorted.__init__

    def counted(self: Any, codes: Any, groups: int) -> None:
        calls.append(groups)
        original(self, codes, groups)

    monkeypatch.setattr(kernels.Sorted, "__init__", counted)
    assert results(OPERATIONS[operation], epochs, "double", as_columns=True) == expected
    assert len(calls) == 3, "all batches went by columns"
    assert results(OPERATIONS[operation], epochs, "double", as_columns=True, backend="rocksdb") == expected


def test_windows_go_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = kernels.final

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(aggregates, "final", counted)
    epochs: list[list[Record]] = [[("a", 1, 1, "x"), ("b", 2, 2, "y"), ("a", 12, 3, "z")]]
    found = results(lambda keyed: keyed.window(WINDOWS["tumbling"]).sum(2), epochs, "int", as_columns=True)
    assert sorted(found) == ["('a', 1, 1, 'x')", "('a', 12, 3, 'z')", "('b', 2, 2, 'y')"]
    assert len(calls) == 2


def test_an_overflow_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[list[Record]] = [[("a", 1, 2**62, "x"), ("a", 2, 2**62, "y")]]
    expected = attempt(OPERATIONS["sum"], epochs, "int", as_columns=False)
    assert isinstance(expected, type), "it does not fit a LONG"
    assert attempt(OPERATIONS["sum"], epochs, "int", as_columns=True) is expected
