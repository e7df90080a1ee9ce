"""Each kind of source that Spark reads has one reader, and nothing else asks for its kind."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.kafka.offsets import KafkaOffsetsInitializer
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.connectors.sources import DataFrameSource, FormatSource, Source, SparkSource
from tidemill.errors import GraphError
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.spark.files.format_reader import FormatReader
from tidemill.spark.frames.source_reader import DataFrameSourceReader
from tidemill.spark.kafka.kafka_reader import KafkaReader
from tidemill.spark.readers import READERS, SparkReaders, reader_of

SPARK = Path(__file__).parents[3] / "src" / "tidemill" / "spark"


def kafka_source(*, ends: bool = False, max_records: int | None = None) -> KafkaSource:
    builder = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topics("clicks")
    builder.set_value_only_deserializer(SimpleStringSchema())
    if ends:
        builder.set_unbounded(KafkaOffsetsInitializer.latest())
    if max_records is not None:
        builder.set_max_records_per_epoch(max_records)
    return builder.build()


def test_no_module_but_the_table_looks_at_the_kind_of_a_source() -> None:
    kinds = {SparkSource.__name__, *(kind.__name__ for kind in READERS)}
    found = [
        f"{path.relative_to(SPARK)}:{node.lineno}"
        for path in sorted(SPARK.rglob("*.py"))
        if path.name != "readers.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type")
        if kinds & {name.id for argument in node.args for name in ast.walk(argument) if isinstance(name, ast.Name)}
    ]
    assert not found, "a SourceReader should say it"


def test_a_kind_that_is_derived_from_another_is_read_like_that_one() -> None:
    class Orders(FormatSource):
        pass

    assert type(reader_of(Orders("parquet", "/orders"))) is FormatReader
    assert type(reader_of(DataFrameSource(None))) is DataFrameSourceReader
    assert type(reader_of(kafka_source())) is KafkaReader


def test_a_source_without_a_reader_is_refused() -> None:
    class Pigeons(SparkSource):
        pass

    with pytest.raises(GraphError, match=r"Pigeons is not a source that Spark can read.*from_dataframe\(\)"):
        SparkReaders.of({0: Pigeons()})


def test_sources_end_or_are_streamed_or_watched() -> None:
    sources: dict[int, Source] = {
        0: CollectionSource([1]),
        1: FormatSource("json", "/in", bounded=False),
        2: FormatSource("JSON", "/in"),
        3: FormatSource("rate", bounded=False),
        4: FormatSource("delta", "/table", bounded=False),
        5: DataFrameSource(None),
        6: DataFrameSource(None, bounded=False),
        7: kafka_source(),
        8: kafka_source(ends=True),
        9: FormatSource("binaryFile", "/in", bounded=False),
    }
    readers = SparkReaders.of(sources)
    assert list(readers.bounded) == [2, 5, 8]
    assert list(readers.streams) == [3, 4, 6, 7]
    assert list(readers.watched) == [1, 9]
    assert readers.watched[1] is sources[1]
    assert list(readers.files) == [1, 2, 3, 4, 9]


def test_the_batches_of_kafka_alone_follow_what_an_epoch_may_have() -> None:
    limit = EpochLimit(max_records=1000, max_seconds=10.0)
    assert limit.records == 100
    assert reader_of(kafka_source()).max_records(limit) == 100
    assert reader_of(kafka_source(max_records=50)).max_records(limit) == 50
    assert reader_of(kafka_source(max_records=5000)).max_records(limit) == 100
    assert reader_of(FormatSource("rate", bounded=False)).max_records(limit) == 1000
    free = EpochLimit(max_records=1000, max_seconds=None)
    assert reader_of(kafka_source(max_records=5000)).max_records(free) == 5000, "what the program says counts"


def test_kafka_alone_has_a_tracker_and_no_files() -> None:
    session: Any = None
    readers = SparkReaders.of({0: kafka_source(), 1: FormatSource("rate", bounded=False), 2: DataFrameSource(None)})
    assert [reader.tracker(session) is None for reader in readers.by_chain.values()] == [False, True, True]
    assert [reader.has_files for reader in readers.by_chain.values()] == [False, True, True]
