"""Counts words from one Kafka topic and writes the counts to another, exactly once.

Readers of the second topic with isolation.level=read_committed see each count once, even if processes are killed and
restarted in the meantime. The program reads the records that are in the topic when it first starts, and then ends.
Without set_bounded, it would run forever.

It needs a broker with both topics, and the package confluent-kafka (pip install 'tidemill[kafka]'):

python -m examples.connectors.kafka_to_kafka --servers localhost:9092 --from words --to counts
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tidemill.common import Configuration, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)


def count(word: str, seen: int | None) -> tuple[str, int]:
    """Return the line to write, and the new state of the word."""
    new = (seen or 0) + 1
    return f"{word} {new}", new


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092", help="the bootstrap servers")
    parser.add_argument("--from", dest="source", default="words", help="the topic to read")
    parser.add_argument("--to", dest="target", default="counts", help="the topic to write")
    parser.add_argument("--checkpoints", help="the checkpoint directory; a restarted job resumes from there")
    options = parser.parse_args(arguments)

    lines = (
        KafkaSource.builder()
        .set_bootstrap_servers(options.servers)
        .set_topics(options.source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    counts = (
        KafkaSink.builder()
        .set_bootstrap_servers(options.servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("word-counts")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(options.target)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )

    configuration = Configuration().set_string("execution.job-id", "word-counts")
    if options.checkpoints:
        configuration.set_string("execution.checkpointing.dir", options.checkpoints)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    words = env.from_source(lines, WatermarkStrategy.no_watermarks(), "lines").uid("lines").flat_map(str.split)
    words.key_by(lambda word: word).map_with_state(count).uid("count").sink_to(counts).uid("counts")
    env.execute("word counts")


if __name__ == "__main__":
    main()
