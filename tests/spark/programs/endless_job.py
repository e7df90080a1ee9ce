"""A job without a checkpoint directory that runs until someone ends it; says ``RUNNING`` once an epoch is committed.

One argument: ``stream`` for a streaming query, ``loop`` for a bounded job that takes very long, without Spark.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import SinkFunction


class Nowhere(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


def main(kind: str) -> None:
    configuration = Configuration()
    target = "spark" if kind == "stream" else "local"
    options = {"execution.target": target, "spark.master": "local[2,4]", "execution.epoch.max-records": "10"}
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if kind == "stream":
        numbers = env.read_format("rate", options={"rowsPerSecond": "50"}, watch=True).map(lambda row: row.value)
    else:
        numbers = env.from_sequence(1, 10_000_000)
    numbers.key_by(lambda n: n % 3).map(lambda n: n).add_sink(Nowhere())
    client = env.execute_async("endless")
    while not client.get_accumulators().result():
        time.sleep(0.1)
    print("RUNNING", flush=True)
    if kind == "stream":
        client.get_job_execution_result().result()
    else:
        time.sleep(1)
        client.cancel().result()
        print("CANCELLED", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
