"""Kinesis Data Streams and Firehose, with PyFlink's class names. They need the extra ``tidemill[kinesis]``.

Start with ``consumer.py`` or ``sinks.py``. ``shards.py`` reads shards in threads of the driver, ``enumerator.py`` deals
their records to epochs, ``batching.py`` writes batches and repeats what was rejected, and ``client.py`` creates clients
from Flink's properties. This is not PyFlink's import path: programs use ``tidemill.datastream.connectors.kinesis``.
"""

from __future__ import annotations

from tidemill.connectors.kinesis.assigners import KinesisShardAssigner, WatermarkTracker
from tidemill.connectors.kinesis.consumer import FlinkKinesisConsumer
from tidemill.connectors.kinesis.records import KinesisDeserializationSchema
from tidemill.connectors.kinesis.sinks import (
    KinesisFirehoseSink,
    KinesisFirehoseSinkBuilder,
    KinesisStreamsSink,
    KinesisStreamsSinkBuilder,
    PartitionKeyGenerator,
)

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]
