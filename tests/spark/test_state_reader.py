"""State as a DataFrame: read by the executors, a range of key groups each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import Row, SparkSession

from tidemill import state_processor
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import Types
from tidemill.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.state_processor import SavepointReader
from tidemill.testing import JobHarness

KEYS = 200


class Color(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Place:
    pair: Pair
    color: Color
    tags: list[str]
    by_name: dict[str, int]
    day: dt.date


class Store(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.place = runtime_context.get_state(ValueStateDescriptor("place", Types.DATACLASS(Place)))
        self.mixed = runtime_context.get_state(ValueStateDescriptor("mixed"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.DOUBLE()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.BOOLEAN()))
        self.none = runtime_context.get_map_state(MapStateDescriptor("none"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        color = Color.BLUE if value % 2 else Color.RED
        day = dt.date(2026, 1, 1) + dt.timedelta(days=value)
        self.place.update(Place(Pair(value, "p"), color, ["t"] * (value % 3), {"n": value}, day))
        self.mixed.update(value if value % 2 else str(value))
        self.list.add(value / 2)
        self.map.put("even", value % 2 == 0)
        self.none.put("k", None)
        yield value


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> SavepointReader:
    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> DataStream:
        return numbers.key_by(lambda n: n % KEYS, Types.LONG()).process(Store()).uid("store")

    folder: Path = tmp_path_factory.mktemp("state") / "job"
    with JobHarness(build, inputs=["numbers"], storage=LocalStorage(folder, durable=False)) as job:
        job.epoch(numbers=range(KEYS))
        job.epoch(numbers=range(KEYS, KEYS + 50))
    return state_processor.read(folder)


def in_arrow_form(value: Any) -> Any:
    """Rows as dicts and maps as pairs."""
    if isinstance(value, Row):
        return {key: in_arrow_form(item) for key, item in value.asDict().items()}
    return list(value.items()) if isinstance(value, dict) else value


@pytest.mark.parametrize("name", ["place", "mixed", "list", "map", "none"])
def test_a_frame_has_what_the_table_has(spark: SparkSession, state: SavepointReader, name: str) -> None:
    frame = state.to_dataframe(spark, "store", name, partitions=4)
    table = state.keyed_state("store", name)
    assert frame.columns == table.column_names
    assert frame.rdd.getNumPartitions() == 4

    found = [in_arrow_form(row) for row in frame.collect()]
    assert sorted(found, key=str) == sorted(table.to_pylist(), key=str)
    assert len(found) == KEYS


def test_sql_over_state(spark: SparkSession, state: SavepointReader) -> None:
    state.to_dataframe(spark, "store", "place").createOrReplaceTempView("places")
    rows = spark.sql(
        "select value.color as color, count(*) as n, max(value.by_name['n']) as most from places group by 1 order by 1"
    ).collect()
    assert [tuple(row) for row in rows] == [("BLUE", 100, 249), ("RED", 100, 248)]


def test_spark_reads_an_export(spark: SparkSession, state: SavepointReader, tmp_path: Path) -> None:
    state.export(tmp_path / "list.parquet", "store", "list")
    frame = spark.read.parquet(str(tmp_path / "list.parquet"))
    assert frame.selectExpr("sum(size(value))").first()[0] == KEYS + 50  # type: ignore[index]
