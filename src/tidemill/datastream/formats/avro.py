"""Individual records in Avro format (not Avro files), under PyFlink's names. Needs the extra ``avro``."""

from __future__ import annotations

from tidemill.connectors.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
)

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
]
