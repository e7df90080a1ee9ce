"""The marked cases of the semantics suite on Spark, with the results they have in the local engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.semantics.cases import SPARK_BAD_CASES, SPARK_CASES, BadCase, Case, check
from tests.thorough import THOROUGH
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import TidemillError

ROOT = Path(__file__).parents[2]
#: To Spark these are as others that are always run: they differ in the function that is called in a worker.
ALIKE = {
    *("flat_map", "filter", "key_by-nested-field", "key_by-key-selector", "sum", "max_by"),
    *("clearing-states", "timers-set-by-timers", "keys-none", "keys-floats", "keys-tuples", "keys-enums"),
    *("word-count", "map_with_state", "co_map", "diamond", "session-windows", "windows-over-windows", "interval-join"),
}


@pytest.fixture(scope="module", autouse=True)
def workers_find_the_cases(spark: SparkSession) -> Iterator[None]:
    """Functions and classes of the cases are sent by name: Python workers import them from the repository."""
    known = spark.sparkContext.environment.get("PYTHONPATH", "")
    spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), known]))
    yield
    spark.sparkContext.environment["PYTHONPATH"] = known


def run(case: Case | BadCase) -> list[Any]:
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", case.mode if isinstance(case, Case) else "STREAMING")
    configuration.set_string("execution.epoch.max-records", "5")
    configuration.set_string("parallelism.default", "2")
    results: Any = case.build(StreamExecutionEnvironment(configuration)).execute_and_collect()
    with results:
        return list(results)


def test_all_that_are_alike_are_cases() -> None:
    assert {case.id for case in SPARK_CASES} > ALIKE


@pytest.mark.parametrize(
    "case", [case for case in SPARK_CASES if THOROUGH or case.id not in ALIKE], ids=lambda case: case.id
)
def test_case(case: Case) -> None:
    check(case, run(case))


@pytest.mark.parametrize("case", SPARK_BAD_CASES, ids=lambda case: case.id)
def test_bad_case(case: BadCase) -> None:
    with pytest.raises(TidemillError) as caught:
        run(case)
    assert type(caught.value) is case.error, caught.value
    for part in case.says:
        assert part in str(caught.value)
