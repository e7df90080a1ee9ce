"""The RabbitMQ source and sink, with PyFlink's class names. They need the extra ``tidemill[rabbitmq]``.

Start with ``source.py`` or ``sink.py``. ``consumer.py`` receives messages in a thread of the driver, and ``config.py``
describes connections. This is not PyFlink's import path: programs use ``tidemill.datastream.connectors.rabbitmq``.
"""

from __future__ import annotations

from tidemill.connectors.rabbitmq.config import RMQConnectionConfig
from tidemill.connectors.rabbitmq.sink import RMQSink
from tidemill.connectors.rabbitmq.source import RMQSource

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]
