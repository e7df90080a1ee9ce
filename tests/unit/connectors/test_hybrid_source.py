"""Sources one after the other: what is refused before anything starts, and where event time is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tidemill.common import Configuration, Types, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.sources import ClockOf, Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors import (
    FileSource,
    FlinkKafkaConsumer,
    HybridSource,
    NumberSequenceSource,
    StreamFormat,
)
from tidemill.errors import ConfigurationError, GraphError

NUMBERS = NumberSequenceSource(1, 3)


class Room(SplitSource):
    """One partition with two records; unbounded, or with an end that it announces, or not."""

    def __init__(self, *, bounded: bool = True, announced: bool = True, clock: ClockOf = ClockOf.SUBTASK) -> None:
        self.bounded = bounded
        self.announced = announced
        self.clock = clock

    @property
    def clock_of(self) -> ClockOf:
        return self.clock

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return Door(self, position or 0)

    def read(self, split: Split) -> Iterator[Any]:
        assert split.partition == "room"
        yield RecordBatch([split.payload])


class Door(SplitEnumerator):
    def __init__(self, room: Room, position: int) -> None:
        self.room = room
        self.next = position

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        self.next += 1
        return [Split(self.next, 1, "room", last=self.room.announced and self.next == 2)]

    def position(self) -> Position:
        return self.next

    @property
    def finished(self) -> bool:
        return self.room.bounded and self.next == 2


def test_sources_that_spark_reads_are_refused() -> None:
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data").build()
    with pytest.raises(ConfigurationError, match="cannot contain a FileSource, which Spark reads"):
        HybridSource.builder(files)
    consumer = FlinkKafkaConsumer("a", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    with pytest.raises(ConfigurationError, match="cannot contain a KafkaSource"):
        HybridSource.builder(NUMBERS).add_source(consumer)


def test_only_the_last_source_may_be_unbounded() -> None:
    with pytest.raises(ConfigurationError, match="source 1 of a HybridSource is unbounded"):
        HybridSource.builder(Room(bounded=False)).add_source(NUMBERS)
    assert not HybridSource.builder(NUMBERS).add_source(Room(bounded=False)).build().bounded


def test_sources_have_their_event_time_at_the_same_level() -> None:
    with pytest.raises(ConfigurationError, match="per source and per subtask"):
        HybridSource.builder(Room(clock=ClockOf.SOURCE)).add_source(NUMBERS)
    assert HybridSource.builder(Room(clock=ClockOf.SOURCE)).build().clock_of is ClockOf.SOURCE


def test_only_a_source_is_a_source() -> None:
    wrong: Any = [1, 2]
    with pytest.raises(TypeError, match="not list"):
        HybridSource.builder(wrong)


def test_has_what_its_sources_have_in_common() -> None:
    source = HybridSource.builder(NUMBERS).add_source(CollectionSource(["a"])).build()
    assert (source.type_info, source.parallelism, source.replayable) == (None, 1, True)
    assert HybridSource.builder(NUMBERS).add_source(NUMBERS).build().type_info == Types.LONG()


def records_of(source: HybridSource) -> list[tuple[Any, str | None]]:
    enumerator = source.create_enumerator(None)
    found = []
    while not enumerator.finished:
        for split in enumerator.next_splits(1, 1):
            assert isinstance(split, Split)
            found += [(value, split.partition) for batch in source.read(split) for value in batch.values]
        enumerator = source.create_enumerator(enumerator.position())
    return found


def test_partitions_of_different_sources_are_different() -> None:
    source = HybridSource.builder(Room()).add_source(Room()).build()
    assert records_of(source) == [(1, "0/room"), (2, "0/room"), (1, "1/room"), (2, "1/room")]


def test_a_partition_without_an_end_is_an_error_when_its_source_ends() -> None:
    with pytest.raises(GraphError, match=r"source 1 of a HybridSource, a Room, has ended .* partition 'room'"):
        records_of(HybridSource.builder(Room(announced=False)).add_source(NUMBERS).build())
    assert len(records_of(HybridSource.builder(NUMBERS).add_source(Room(announced=False)).build())) == 5


def test_a_job_reads_them_in_order() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    )
    source = HybridSource.builder(NUMBERS).add_source(NumberSequenceSource(10, 12)).build()
    with env.from_source(source, WatermarkStrategy.no_watermarks(), "both").execute_and_collect() as numbers:
        assert list(numbers) == [1, 2, 3, 10, 11, 12]
