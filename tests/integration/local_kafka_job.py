"""A job without Spark that counts the words of a topic, each by itself, and writes the counts to files, exactly once.

``python local_kafka_job.py <address> <topic> <folder>`` runs it until it is killed, in small epochs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidemill.common import Configuration, Encoder, JobClient, Types, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.datastream.connectors.kafka import KafkaSource
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    """Each record with how often it has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}:{count}"


def to_files(stream: DataStream, folder: Path) -> None:
    """Write lines below a folder."""
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
    sink.with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
    stream.sink_to(sink.build()).uid("sink")


def counting(source: KafkaSource, folder: Path, job_id: str = "job", **options: str) -> JobClient:
    """Start the job."""
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.job-id": job_id,
            "pipeline.max-parallelism": "8",
            **options,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "topic").uid("topic")
    to_files(words.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count"), folder)
    return env.execute_async(job_id)


def seen(folder: Path) -> Counter[str]:
    """What was committed so far."""
    parts = [part for part in (folder / "out").rglob("*") if part.is_file() and not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())


def main() -> None:
    address, topic, folder = sys.argv[1:]
    source = KafkaSource.builder().set_bootstrap_servers(address).set_topics(topic).set_max_records_per_epoch(20)
    client = counting(source.set_value_only_deserializer(SimpleStringSchema()).build(), Path(folder))
    client.get_job_execution_result().result()


if __name__ == "__main__":
    main()
