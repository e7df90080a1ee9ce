"""A savepoint made from a DataFrame, its functions on Spark's workers; a job on Spark starts from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemill import state_processor
from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.state_processor import KeyedStateBootstrapFunction, OperatorTransformation, SavepointWriter

TOTAL = ValueStateDescriptor("total", Types.LONG())


class Fill(KeyedStateBootstrapFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> None:
        self.total.update(value[1])


class Add(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()


def test_a_dataframe_becomes_the_state_of_a_job(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1000).selectExpr("id", "id * 2 AS total")
    keyed = OperatorTransformation.bootstrap_with(frame).key_by(lambda row: row[0], Types.LONG())
    configuration = Configuration.from_dict({"parallelism.default": "2"})
    writer = SavepointWriter.new_savepoint(128, configuration).with_operator("totals", keyed.transform(Fill()))
    path = writer.write(str(tmp_path / "start"))
    read = state_processor.read(path).to_dataframe(spark, "totals", "total")
    assert read.count() == 1000
    assert read.where("value != key * 2").count() == 0

    configuration.set_string("execution.state-recovery.path", path)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_max_parallelism(128)
    rows = env.from_collection([(7, 1), (999, 1), (1000, 1)]).uid("rows").key_by(lambda row: row[0], Types.LONG())
    assert sorted(rows.process(Add()).uid("totals").execute_and_collect()) == [(7, 15), (999, 1999), (1000, 1)]
