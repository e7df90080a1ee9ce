"""Records as JSON objects, under PyFlink's names."""

from __future__ import annotations

from tidemill.connectors.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(("DeserializationSchema", "SerializationSchema"), "tidemill.common.serialization"),
        **dict.fromkeys(("TypeInformation", "typeinfo"), "tidemill.common.typeinfo"),
    },
)
