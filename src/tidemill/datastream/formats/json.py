"""Records as JSON objects, under PyFlink's names."""

from __future__ import annotations

from tidemill.connectors.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
