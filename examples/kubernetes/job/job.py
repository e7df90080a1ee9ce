"""Counts the orders of each customer forever: a program to try out a cluster. Its argument is the output directory."""

from __future__ import annotations

import sys

from tidemill.common import Encoder, Types, WatermarkStrategy, run_main
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy

CUSTOMERS = 1000
PER_SECOND = 500


def main() -> None:
    """Build the job, and run it until it is stopped."""
    orders = DataGeneratorSource(
        lambda number: (f"customer-{number * 7919 % CUSTOMERS}", 1),
        rate_limiter_strategy=RateLimiterStrategy.per_second(PER_SECOND),
        type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
    )
    results = (
        FileSink.for_row_format(sys.argv[1], Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    stream.key_by(0).sum(1).uid("counts").map(str).uid("lines").sink_to(results).uid("files")
    env.execute("orders")


if __name__ == "__main__":
    sys.exit(run_main(main))
