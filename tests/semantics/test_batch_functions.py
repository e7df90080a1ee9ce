"""Batch functions: in every format, over columns and objects, they give what the same function of records gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidemill.common import Configuration, Row, Types, WatermarkStrategy
from tidemill.common.job_client import JobClient
from tidemill.connectors.sources import Split
from tidemill.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from tidemill.errors import TidemillError, TypeMismatchError
from tidemill.testing.scripted_source import Script, ScriptedSource

RECORDS = [("tea", 3), ("milk", 9), ("rice", 5), ("tea", None)]
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["item", "count"], [Types.STRING(), Types.LONG()])
FORMATS = ["list", "arrow", "pandas", "polars", "numpy"]
Build = Callable[[DataStream], DataStream]


class Columns(ScriptedSource):
    """Reads its records as Arrow columns."""

    def __init__(self, script: Script | None, parallelism: int, type_info: Any) -> None:
        super().__init__(script, parallelism)
        self.type_info = type_info

    def read(self, split: Split) -> Iterator[Any]:
        items, counts = zip(*split.payload, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(items), pa.array(counts, pa.int64())], names=["item", "count"])

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (None, self.parallelism, self.type_info)


def environment() -> StreamExecutionEnvironment:
    settings = {"execution.target": "local", "parallelism.default": "1", "execution.runtime-mode": "STREAMING"}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def columns(records: list[Any] = RECORDS, type_info: Any = NAMED) -> DataStream:
    script = Script()
    script.add(records)
    script.ended = True
    return environment().from_source(Columns(script, 1, type_info), WatermarkStrategy.no_watermarks(), "columns")


def objects(records: list[Any] = RECORDS, type_info: Any = NAMED) -> DataStream:
    made = [Row(item=item, count=count) for item, count in records] if type_info is NAMED else records
    return environment().from_collection(made, type_info)


def results(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as found:
        return list(found)


SOURCES = [columns, objects]
LARGE: dict[str, Callable[[Any], Any]] = {
    "list": lambda rows: [row.count is not None and row.count > 4 for row in rows],
    "arrow": lambda batch: pc.greater(batch["count"], 4),
    "pandas": lambda frame: frame["count"] > 4,
    "polars": lambda frame: frame["count"] > 4,
    "numpy": lambda arrays: arrays["count"] > 4,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("form", FORMATS)
def test_filter(source: Callable[[], DataStream], form: str) -> None:
    found = results(source().filter_batch(LARGE[form], batch_format=form))
    assert found == [Row(item="milk", count=9), Row(item="rice", count=5)]


DOUBLED: dict[str, Callable[[Any], Any]] = {
    "list": lambda rows: [
        Row(item=row.item.upper(), twice=None if row.count is None else 2 * row.count) for row in rows
    ],
    "arrow": lambda batch: {"item": pc.utf8_upper(batch["item"]), "twice": pc.multiply(batch["count"], 2)},
    "pandas": lambda frame: pd.DataFrame(
        {"item": frame["item"].str.upper(), "twice": frame["count"].astype("Int64") * 2}
    ),
    "polars": lambda frame: frame.select(item=pl.col("item").str.to_uppercase(), twice=pl.col("count") * 2),
    "numpy": lambda arrays: {
        "twice": [None if np.isnan(n) else int(2 * n) for n in arrays["count"]],  # NumPy has no missing integers
        "item": np.char.upper(arrays["item"].astype(str)),
    },
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("form", "shape"),
    [*((form, "row") for form in FORMATS), ("arrow", "tuple"), ("pandas", "tuple"), ("polars", "tuple")],
)
def test_map(source: Callable[[], DataStream], form: str, shape: str) -> None:
    fields = [Types.STRING(), Types.LONG()]
    declared = Types.ROW_NAMED(["item", "twice"], fields) if shape == "row" else Types.TUPLE(fields)
    found = results(source().map_batch(DOUBLED[form], declared, batch_format=form))
    expected = [("TEA", 6), ("MILK", 18), ("RICE", 10), ("TEA", None)]
    assert [tuple(record) for record in found] == expected
    assert {type(record) for record in found} == {Row if shape == "row" else tuple}


TWICE: dict[str, Callable[[Any], Any]] = {
    "list": lambda rows: (rows * 2, [*range(len(rows)), *range(len(rows))]),
    "arrow": lambda batch: (pa.concat_batches([batch, batch]), [*range(len(batch)), *range(len(batch))]),
    "pandas": lambda frame: (pd.concat([frame, frame]), pd.Series([*range(len(frame)), *range(len(frame))])),
    "polars": lambda frame: (pl.concat([frame, frame]), pl.Series([*range(len(frame)), *range(len(frame))])),
    "numpy": lambda arrays: (
        {name: np.concatenate([array, array]) for name, array in arrays.items()},
        np.tile(np.arange(len(arrays["item"])), 2),
    ),
}


class Stamped(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value[0], ctx.timestamp()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("form", FORMATS)
def test_flat_map_keeps_the_timestamps_of_the_causes(source: Callable[..., DataStream], form: str) -> None:
    by_count = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("count", "s")
    stamped = source(RECORDS[:3]).assign_timestamps_and_watermarks(by_count)
    found = results(stamped.flat_map_batch(TWICE[form], NAMED, batch_format=form).process(Stamped()))
    assert found == [("tea", 3000), ("milk", 9000), ("rice", 5000)] * 2


def test_map_and_filter_keep_timestamps() -> None:
    by_count = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("count")
    stamped = columns(RECORDS[:3]).assign_timestamps_and_watermarks(by_count)
    kept = stamped.filter_batch(LARGE["arrow"]).map_batch(lambda batch: batch, NAMED, batch_format="arrow")
    assert results(kept.process(Stamped())) == [("milk", 9), ("rice", 5)]


def test_without_positions_timestamps_would_be_lost() -> None:
    by_count = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("count")
    stamped = columns(RECORDS[:3]).assign_timestamps_and_watermarks(by_count)
    with pytest.raises(TypeMismatchError, match=r"must return \(records, positions\)"):
        results(stamped.flat_map_batch(lambda batch: batch))


@pytest.mark.parametrize("form", FORMATS[1:])
def test_a_single_value_is_an_array(form: str) -> None:
    numbers = environment().from_collection([1, 2, 3], Types.LONG())
    assert results(numbers.map_batch(lambda array: array, Types.DOUBLE(), batch_format=form)) == [1.0, 2.0, 3.0]
    assert results(environment().from_collection([1, 2]).flat_map_batch(lambda _: None, batch_format=form)) == []


def objects_made(source: Callable[[], DataStream], build: Build) -> dict[str, Any]:
    stream = build(source())
    stream.map(lambda record: record).uid("python").filter(lambda _: False).print()
    client: JobClient = stream.get_execution_environment().execute_async("columns")
    client.get_job_execution_result().result()
    found = client.get_metrics().find("numRecordsToObjects")
    return {value.operator or "": value.value for value in found}


def test_columns_stay_columns_up_to_the_first_python_function() -> None:
    by_count = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("count")

    def build(stream: DataStream) -> DataStream:
        timed = stream.filter_batch(LARGE["arrow"]).assign_timestamps_and_watermarks(by_count).project(1, 0)
        spread = timed.rebalance().map_batch(lambda frame: frame, batch_format="pandas")
        return spread.union(timed.shuffle().flat_map_batch(lambda b: (b, range(len(b))))).key_by("item")

    assert objects_made(columns, build) == {"python": 4}


def broken(array: Any) -> Any:
    if 7 in array.tolist():
        raise KeyError("seven")
    return array


@pytest.mark.parametrize("method", ["map_batch", "flat_map_batch"])
def test_an_error_names_the_record(method: str) -> None:
    numbers = environment().from_collection(list(range(20)), Types.LONG())
    with pytest.raises(TidemillError, match="KeyError: 'seven'") as caught:
        results(getattr(numbers, method)(broken, batch_format="numpy"))
    assert "while processing record 7" in str(caught.value)
    assert "defined at" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.map_batch(lambda b: b.slice(1), batch_format="arrow"), "one record for each: 4 in, 3 out"),
        (lambda s: s.filter_batch(lambda b: b["item"]), "must return booleans, not string"),
        (lambda s: s.filter_batch(lambda b: b), "must return booleans, not a table with the columns item, count"),
        (lambda s: s.filter_batch(lambda b: pa.array([True])), "one boolean for each record: 4 in, 1 out"),
        (lambda s: s.map_batch(lambda b: b, Types.LONG(), batch_format="arrow"), "returned the columns item, count"),
        (
            lambda s: s.map_batch(lambda b: b, Types.TUPLE([Types.LONG(), Types.LONG()]), batch_format="arrow"),
            "column 'f0' of type string does not fit its declared type int64",
        ),
        (lambda s: s.flat_map_batch(lambda b: (b, [9, 0, 0, 0])), "position outside of its batch of 4 records"),
    ],
)
def test_wrong_results_are_errors(build: Build, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        results(build(columns()))


def test_records_without_columns_are_refused() -> None:
    with pytest.raises(TypeMismatchError, match="cannot be converted to columns"):
        results(environment().from_collection([object, object]).map_batch(lambda b: b, batch_format="arrow"))


class OneByOne(Columns):
    """Reads its records as columns of one row each."""

    def read(self, split: Split) -> Iterator[Any]:
        for record in split.payload:
            yield from super().read(replace(split, payload=[record]))

    def __reduce__(self) -> tuple[Any, ...]:
        return OneByOne, (None, self.parallelism, self.type_info)


@pytest.mark.parametrize("form", ["numpy", "pandas"])
def test_results_do_not_change_afterwards(form: str) -> None:
    """The function returns the same array for each batch, and the batches wait in one parcel."""
    shared = np.zeros(1, np.int64)
    series = pd.Series(shared, copy=False)

    def fill(values: Any) -> Any:
        shared[:] = values["count"]
        return shared if form == "numpy" else series

    script = Script()
    script.add([("a", 1), ("b", 2), ("c", 3)])
    script.ended = True
    stream = environment().from_source(OneByOne(script, 1, NAMED), WatermarkStrategy.no_watermarks(), "columns")
    assert results(stream.map_batch(fill, Types.LONG(), batch_format=form).rebalance().map(abs)) == [1, 2, 3]


def test_wrong_arguments_are_errors_at_once() -> None:
    with pytest.raises(ValueError, match="one of list, arrow, pandas, polars, numpy, not 'csv'"):
        columns().map_batch(lambda b: b, batch_format="csv")
    with pytest.raises(TypeError, match="needs a function of a batch, not int"):
        columns().filter_batch(3)  # type: ignore[arg-type]
