"""Kinesis source and sinks, under PyFlink's path. They need the extra ``tidemill[kinesis]``."""

from __future__ import annotations

from tidemill.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisFirehoseSink,
    KinesisFirehoseSinkBuilder,
    KinesisShardAssigner,
    KinesisStreamsSink,
    KinesisStreamsSinkBuilder,
    PartitionKeyGenerator,
    WatermarkTracker,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

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

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(("DeserializationSchema", "SerializationSchema"), "tidemill.common.serialization"),
        "AssignerWithPeriodicWatermarksWrapper": "tidemill.common.watermark_strategy",
        "Sink": "tidemill.connectors.base",
        "SourceFunction": "tidemill.datastream.functions",
    },
)
