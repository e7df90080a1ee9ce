"""The Pulsar source and sink, with PyFlink's class names. They need the extra ``tidemill[pulsar]``.

Start with ``source.py`` or ``sink.py``. ``partitions.py`` reads the partitions of topics in threads of the driver,
``cursors.py`` defines where reading starts and stops, and ``client.py`` creates clients. This is not PyFlink's import
path: programs use ``tidemill.datastream.connectors.pulsar``.
"""

from __future__ import annotations

from tidemill.connectors.pulsar.cursors import RangeGenerator, StartCursor, StopCursor, SubscriptionType
from tidemill.connectors.pulsar.schemas import PulsarDeserializationSchema, PulsarSerializationSchema
from tidemill.connectors.pulsar.sink import MessageDelayer, PulsarSink, PulsarSinkBuilder, TopicRoutingMode
from tidemill.connectors.pulsar.source import PulsarSource, PulsarSourceBuilder

__all__ = [
    "MessageDelayer",
    "PulsarDeserializationSchema",
    "PulsarSerializationSchema",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "SubscriptionType",
    "TopicRoutingMode",
]
