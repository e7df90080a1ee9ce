"""Writes the records of a bounded Kafka source as materialized input, one part for each partition."""

from __future__ import annotations

from tidemill.checkpoint.storage.storages import Storage
from tidemill.connectors.kafka.broker_queries import bounds
from tidemill.connectors.kafka.library_broker import LibraryBroker
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.connectors.kafka.topic_reader import TopicReader
from tidemill.runtime.stored_input.input_index import write_index
from tidemill.runtime.stored_input.write_input import write_part

__all__ = ["store_topics"]


def store_topics(source: KafkaSource, storage: Storage, folder: str) -> None:
    """Store the records between the starting and stopping offsets in a folder (its name ends with a slash)."""
    with LibraryBroker(source) as broker:
        starting, stopping = bounds(broker, source)
    patience = int(source.client_properties()["default.api.timeout.ms"]) / 1000
    reader = TopicReader(source, {})
    try:
        parts = [
            write_part(
                storage,
                folder,
                f"part-{number:05}",
                (batch for batch in reader.read_range(partition, start, stopping[partition], patience) if len(batch)),
            )
            for number, (partition, start) in enumerate(sorted(starting.items()))
        ]
    finally:
        reader.close()
    write_index(storage, folder, [part for part in parts if part.files])
