"""Programs of very many operators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.common import WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import DataStream, ErrorPolicy, OutputTag, ProcessFunction, StreamExecutionEnvironment
from tidemill.errors import UserCodeError
from tidemill.testing import run_local

OPERATORS = 250
BAD = OutputTag("bad")
SEEN = OutputTag("seen")


@pytest.fixture(autouse=True)
def default_recursion_limit() -> Iterator[None]:
    """Other tests may have run longer chains in this process."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


class Next(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield SEEN, value
        yield value + 1


class Time(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


def add(stream: DataStream, kind: str) -> DataStream:
    if kind == "map":
        return stream.map(lambda n: n + 1)
    if kind == "flat_map":
        return stream.flat_map(lambda n: [n + 1])
    if kind == "filter":
        return stream.filter(lambda n: True).map_batch(lambda batch: [n + 1 for n in batch])
    if kind == "timestamps":
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
        return stream.assign_timestamps_and_watermarks(strategy).map(lambda n: n + 1)
    if kind == "on_error":
        return stream.process(Next()).on_error(ErrorPolicy.side_output(BAD))
    return stream.process(Next())


@pytest.mark.parametrize("kind", ["map", "flat_map", "filter", "process", "timestamps", "on_error"])
def test_a_chain_of_many_operators(kind: str) -> None:
    def program(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_collection([1, 2])
        for _ in range(OPERATORS):
            stream = add(stream, kind)
        return stream

    assert run_local(program, parallelism=1) == [OPERATORS + 1, OPERATORS + 2]


def test_many_levels() -> None:
    def program(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_collection([1, 2])
        for _ in range(60):
            stream = stream.key_by(lambda n: n).reduce(lambda one, two: one)
        return stream

    assert sorted(run_local(program)) == [1, 2]


def test_endless_recursion_of_a_function_is_still_found() -> None:
    def endless(n: int) -> int:
        return endless(n + 1)

    def program(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_collection([1, 2])
        for _ in range(OPERATORS):
            stream = stream.map(lambda n: n)
        return stream.map(endless)

    with pytest.raises(UserCodeError, match="RecursionError"):
        run_local(program, parallelism=1)
