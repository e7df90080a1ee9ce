"""What cars owe on a toll road: ``toll_job.py OUTPUT [COUNT]``; without a count there is no end.

A line of the output is a car, the number of its pass, what the car owes then, and the host and subtask that say so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from passes import pass_at  # type: ignore[import-not-found]
from tariffs import toll  # type: ignore[import-not-found]

from tidemill.common import Encoder, Types, WatermarkStrategy, run_main
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor

PER_SECOND = 200


class Account(KeyedProcessFunction):
    """Adds up the tolls of each car."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.place = f"{os.environ['SPARK_LOCAL_IP']} {runtime_context.get_index_of_this_subtask()}"

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        car, number = value
        total = (self.total.value() or 0) + toll(number)
        self.total.update(total)
        yield f"{car} {number} {total} {self.place}"


def main() -> None:
    output, *count = sys.argv[1:]
    rate = RateLimiterStrategy.per_second(PER_SECOND)
    source = DataGeneratorSource(pass_at, int(count[0]) if count else None, rate)
    sink = (
        FileSink.for_row_format(output, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    passes = env.from_source(source, WatermarkStrategy.no_watermarks(), "passes").uid("passes")
    accounts = passes.key_by(lambda value: value[0]).process(Account()).uid("accounts")
    accounts.sink_to(sink).uid("lines")
    env.execute("tolls")


if __name__ == "__main__":
    sys.exit(run_main(main))
