"""Bad records on Spark: set aside by operators with a policy, named by a job without one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import collected, environment
from tidemill.common import RestartStrategies, Types
from tidemill.datastream import ErrorPolicy, OutputTag
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import UserCodeError

BAD = OutputTag("bad")


class Sum(KeyedProcessFunction):
    """Changes its state, then fails at 7."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.sum.update((self.sum.value() or 0) + value)
        yield 100 // (value - 7) and (value, self.sum.value())


def test_bad_records_go_to_a_side_output_and_to_the_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    env = environment({"execution.dead-letter.dir": str(tmp_path / "dead")})
    rows = spark.createDataFrame([(str(n) if n % 4 else f"bad {n}",) for n in range(1, 10)], "text STRING")
    numbers = env.from_dataframe(rows).map(lambda row: int(row[0])).uid("parse").on_error(ErrorPolicy.side_output(BAD))
    sums = numbers.key_by(lambda n: 0).process(Sum()).uid("sum").on_error(ErrorPolicy.dead_letter())
    told = sums.map(lambda pair: pair[0]).union(numbers.get_side_output(BAD).map(lambda poison: poison.value[0]))
    assert sorted(map(str, collected(told))) == ["1", "2", "3", "5", "6", "9", "bad 4", "bad 8"]
    lines = [line for file in (tmp_path / "dead").glob("*.jsonl") for line in file.read_text().splitlines()]
    (letter,) = map(json.loads, lines)
    assert (letter["uid"], letter["value"], letter["key"], letter["exception"]) == ("sum", 7, 0, "ZeroDivisionError")


def test_a_job_that_fails_at_one_record_again_and_again_names_it(spark: SparkSession) -> None:
    env = environment()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 10))
    env.from_collection([5, 6, 7, 8]).key_by(lambda n: 0).process(Sum()).name("sums").uid("sum").print()
    client = env.execute_async("failing")
    with pytest.raises(UserCodeError, match="failed 2 times at the same record"):
        client.get_job_execution_result().result(60)
    (entry,) = client.get_exception_history()
    site = entry.site
    assert (entry.times, site.operator, site.uid, site.epoch, site.record, site.key) == (2, "sums", "sum", 1, "7", "0")
    assert entry.exception.startswith("ZeroDivisionError")
    assert entry.followed_by == "the job was not started again"
