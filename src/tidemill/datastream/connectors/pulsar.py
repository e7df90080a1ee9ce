"""Pulsar source and sink, under PyFlink's path. They need the extra ``tidemill[pulsar]``."""

from __future__ import annotations

from tidemill.connectors.pulsar import (
    MessageDelayer,
    PulsarDeserializationSchema,
    PulsarSerializationSchema,
    PulsarSink,
    PulsarSinkBuilder,
    PulsarSource,
    PulsarSourceBuilder,
    RangeGenerator,
    StartCursor,
    StopCursor,
    SubscriptionType,
    TopicRoutingMode,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

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

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(("DeserializationSchema", "SerializationSchema"), "tidemill.common.serialization"),
        **dict.fromkeys(("ConfigOption", "ConfigOptions"), "tidemill.common.config_options"),
        **dict.fromkeys(("DeliveryGuarantee", "Sink", "Source"), "tidemill.connectors.base"),
        "Duration": "tidemill.common.time",
        "ExecutionConfig": "tidemill.common.execution_config",
        "TypeInformation": "tidemill.common.typeinfo",
    },
)
