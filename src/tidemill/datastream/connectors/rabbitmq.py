"""RabbitMQ source and sink, under PyFlink's path. They need the extra ``tidemill[rabbitmq]``."""

from __future__ import annotations

from tidemill.connectors.rabbitmq import (
    RMQConnectionConfig,
    RMQSink,
    RMQSource,
)

__all__ = [
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
]
