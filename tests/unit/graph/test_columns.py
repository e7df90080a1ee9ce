"""Where columns become objects, as explain() shows it and the plan has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.common import Configuration, Duration, Types, WatermarkStrategy
from tidemill.connectors.sources import DataFrameSource
from tidemill.datastream import DataStream, ErrorPolicy, StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.datastream.program.execution import compile_program

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
BY_COLUMN = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(1)
BY_FUNCTION = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: int(pair[1]))
WINDOW = TumblingEventTimeWindows.of(Duration.of_seconds(1))


def stream(mode: str = "STREAMING") -> DataStream:
    env = StreamExecutionEnvironment(Configuration.from_dict({"execution.runtime-mode": mode}))
    return env.from_source(DataFrameSource(None, PAIR), WatermarkStrategy.no_watermarks(), "table")


def takes(last: DataStream) -> bool:
    """Whether the last operator takes columns."""
    last.uid("last").print()
    chains = compile_program(last.get_execution_environment()._program(None)).chains
    (found,) = [one.takes_columns for chain in chains for one in chain.operators if one.uid == "last"]
    return bool(found)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.map_batch(lambda batch: batch, batch_format="arrow"), True),
        (lambda s: s.map_batch(lambda batch: batch), False),
        (lambda s: s.filter_batch(lambda batch: batch[0]), True),
        (lambda s: s.project(1, 0), True),
        (lambda s: s.map(lambda pair: pair), False),
        (lambda s: s.filter(lambda pair: True), False),
        (lambda s: s.assign_timestamps_and_watermarks(BY_COLUMN), True),
        (lambda s: s.assign_timestamps_and_watermarks(BY_FUNCTION), False),
        (lambda s: s.key_by(0).sum(1), True),
        (lambda s: s.key_by(0).avg(1), True),
        (lambda s: s.key_by(0).sum(1).on_error(ErrorPolicy.skip()), False),
        (lambda s: s.key_by(0).reduce(lambda one, two: one), False),
        (lambda s: s.key_by(0).window(WINDOW).sum(1), True),
        (lambda s: s.key_by(0).window(WINDOW).min_by(1), False),
        (lambda s: s.key_by(0).window(WINDOW).reduce(lambda one, two: one), False),
    ],
)
def test_which_operators_take_columns(build: Callable[[DataStream], Any], expected: bool) -> None:
    assert takes(build(stream())) is expected


def test_batch_mode_sorts_records_by_key() -> None:
    assert not takes(stream("BATCH").key_by(0).sum(1))
    assert takes(stream("BATCH").project(0))


def test_a_user_generator_is_not_created_to_find_out() -> None:
    created = []

    def supplier() -> Any:
        created.append(1)
        raise ConnectionError("only on the workers")

    strategy = WatermarkStrategy.for_generator(supplier).with_timestamp_column(1)
    assert not takes(stream().assign_timestamps_and_watermarks(strategy))
    assert not created


def test_explain_shows_where_columns_become_objects() -> None:
    timed = stream().assign_timestamps_and_watermarks(BY_COLUMN)
    timed.key_by(0).sum(1).name("by field").map(lambda pair: pair).name("python").print()
    timed.key_by(lambda pair: pair[0]).sum(1).name("by function").print()
    text = timed.get_execution_environment().explain()
    lines = {name: next(line for line in text.splitlines() if f"{name} (" in line) for name in ("by field", "python")}
    assert ", columns," in lines["by field"]
    assert "makes Python objects of columns" in lines["python"]
    (by_function,) = [line for line in text.splitlines() if "by function (uid" in line]
    assert ", columns," not in by_function, "its keys need objects, before the exchange"
