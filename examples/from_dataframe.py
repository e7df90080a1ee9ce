"""Reads a Spark DataFrame, processes its rows with stateful Python, and writes files, which Spark then reads.

Run it with ``python -m examples.from_dataframe``. It needs Spark.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator

from pyspark.sql import SparkSession

from tidemill.common import Encoder, Row, Types
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink

TRIPS = [("bike", 3.5), ("car", 12.0), ("bike", 1.5), ("car", 30.0), ("bike", 4.0)]


class Odometer(KeyedProcessFunction):
    """Adds up the kilometres of each vehicle."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.total.update((self.total.value() or 0.0) + value.km)
        yield json.dumps({"vehicle": value.vehicle, "km": value.km, "total": self.total.value()})


def main() -> None:
    spark = SparkSession.builder.master("local[2,4]").appName("from_dataframe").getOrCreate()
    trips = spark.createDataFrame(TRIPS, "vehicle STRING, km DOUBLE").coalesce(1)  # one partition keeps the order

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    totals = env.from_dataframe(trips).key_by("vehicle").process(Odometer()).uid("odometer")
    with tempfile.TemporaryDirectory() as folder:
        sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        totals.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
        env.execute("from dataframe")
        for row in spark.read.json(folder).orderBy("vehicle", "total").collect():
            print(f"{row.vehicle}: {row.km} km, {row.total} km in all")


if __name__ == "__main__":
    main()
