"""RabbitMQ source and sink, under PyFlink's path. They need the extra ``tidemill[rabbitmq]``."""

from __future__ import annotations

from tidemill.connectors.rabbitmq import (
    RMQConnectionConfig,
    RMQSink,
    RMQSource,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(("DeserializationSchema", "SerializationSchema"), "tidemill.common.serialization"),
        **dict.fromkeys(("SinkFunction", "SourceFunction"), "tidemill.datastream.functions"),
    },
)
