"""Records as JSON objects, with PyFlink's builders."""

from __future__ import annotations

from tidemill.connectors.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
