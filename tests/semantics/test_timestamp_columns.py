"""Event time from a column: the same windows for columns and for objects, and errors that name the record."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common import Configuration, Row, Time, Types, WatermarkStrategy
from tidemill.common.time import Duration
from tidemill.connectors.sources import Split
from tidemill.datastream import DataStream, StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.errors import TidemillError
from tidemill.testing.scripted_source import Script, ScriptedSource

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["user", "at"], [Types.STRING(), Types.LONG()])
SETTINGS = {"execution.target": "local", "parallelism.default": "2", "execution.runtime-mode": "STREAMING"}


class Columns(ScriptedSource):
    """Reads its records as Arrow columns; ``kind`` is the type of the second one."""

    def __init__(self, script: Script | None, parallelism: int, type_info: Any, kind: pa.DataType) -> None:
        super().__init__(script, parallelism)
        self.type_info = type_info
        self.kind = kind

    def read(self, split: Split) -> Iterator[Any]:
        users, times = zip(*split.payload, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(users), pa.array(times, self.kind)], names=["user", "at"])

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (None, self.parallelism, self.type_info, self.kind)


def columns_of(records: list[Any], type_info: Any = PAIR, kind: pa.DataType | None = None) -> DataStream:
    script = Script()
    for start in range(0, len(records), 4):
        script.add(records[start : start + 4])
    script.ended = True
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(SETTINGS))
    return env.from_source(Columns(script, 1, type_info, kind or pa.int64()), WatermarkStrategy.no_watermarks(), "read")


def objects_of(records: list[Any]) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(SETTINGS))
    return env.from_collection(records, PAIR)


def windows(stream: DataStream, strategy: WatermarkStrategy, key: int | str = 0) -> list[Any]:
    def earlier(one: Any, two: Any) -> Any:
        return one if one[1] <= two[1] else two

    counted = (
        stream.assign_timestamps_and_watermarks(strategy)
        .key_by(key)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .reduce(earlier)
    )
    with counted.execute_and_collect() as results:
        return sorted(map(tuple, results))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20_000)), min_size=1, max_size=30))
def test_columns_and_objects_have_the_same_windows(records: list[tuple[str, int]]) -> None:
    late_by = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(30))
    by_column = late_by.with_timestamp_column(1)
    by_function = late_by.with_timestamp_assigner(lambda record, _: record[1])
    expected = windows(objects_of(records), by_function)
    assert windows(columns_of(records), by_column) == expected
    assert windows(objects_of(records), by_column) == expected
    assert windows(columns_of(records, NAMED), late_by.with_timestamp_column("at"), "user") == expected


@pytest.mark.parametrize(
    ("kind", "unit", "time"),
    [
        (pa.int64(), "s", 7),
        (pa.int32(), "s", 7),
        (pa.int64(), "ms", 7_999),
        (pa.int64(), "us", 7_999_999),
        (pa.int64(), "ns", 7_999_999_999),
        (pa.timestamp("us"), "ms", dt.datetime(1970, 1, 1, 0, 0, 7, 999_999)),  # noqa: DTZ001 - without a zone: UTC
        (pa.timestamp("s", "Europe/Berlin"), "ms", dt.datetime(1970, 1, 1, 0, 0, 7, tzinfo=dt.timezone.utc)),
        (pa.float64(), "s", 7.25),
        (pa.decimal128(10, 1), "s", 7),
    ],
)
def test_units_and_types(kind: pa.DataType, unit: str, time: Any) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at", unit)
    stream = columns_of(
        [("a", time), ("b", time)], Types.ROW_NAMED(["user", "at"], [Types.STRING(), Types.PICKLED_BYTE_ARRAY()]), kind
    )
    assert [record[0] for record in windows(stream, strategy, "user")] == ["a", "b"]
    extract = strategy.get_timestamp_extractor()
    assert extract is not None
    assert extract(Row(user="a", at=time), -1) // 1000 == 7


@pytest.mark.parametrize(("unit", "time"), [("us", -1), ("ns", -1), ("ms", -1)])
def test_times_before_1970_are_rounded_down(unit: str, time: int) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(1, unit)
    extract = strategy.get_timestamp_extractor()
    assert extract is not None
    assert extract(("a", time), -1) == -1
    assert windows(columns_of([("a", time)]), strategy) == [("a", time)]


@pytest.mark.parametrize(
    ("records", "kind", "unit", "message"),
    [
        ([("a", 1), ("b", None)], pa.int64(), "ms", "field 1 cannot be a timestamp: None"),
        ([("a", 1), ("b", 2**62)], pa.int64(), "s", "64 bits"),
        ([("a", "x")], pa.string(), "ms", "field 1 cannot be a timestamp: 'x'"),
    ],
)
def test_what_is_not_a_time_is_an_error_of_its_record(
    records: list[Any], kind: pa.DataType, unit: str, message: str
) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(1, unit)
    with pytest.raises(TidemillError, match=message) as caught:
        windows(columns_of(records, kind=kind), strategy)
    assert repr(records[-1]) in str(caught.value)


def test_a_wrong_unit_or_field_is_an_error_at_once() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(ValueError, match="one of s, ms, us, ns, not 'minutes'"):
        strategy.with_timestamp_column("at", "minutes")
    with pytest.raises(TypeError, match="a name or a position"):
        strategy.with_timestamp_column(True)
