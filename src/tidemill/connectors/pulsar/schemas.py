"""The schemas of PyFlink 1.14 to 1.16, which wrap Flink's. Later versions, and Tidemill, take Flink's own."""

from __future__ import annotations

from typing import Any

from tidemill.common.serialization import DeserializationSchema, SerializationSchema
from tidemill.connectors.messages import checked_schema

__all__ = ["PulsarDeserializationSchema", "PulsarSerializationSchema"]


class PulsarDeserializationSchema:
    """How records are read from messages."""

    @staticmethod
    def flink_schema(deserialization_schema: DeserializationSchema[Any]) -> DeserializationSchema[Any]:
        """Return the schema: sources take it as it is.

        >>> from tidemill.common.serialization import SimpleStringSchema
        >>> type(PulsarDeserializationSchema.flink_schema(SimpleStringSchema())).__name__
        'SimpleStringSchema'
        """
        return checked_schema(deserialization_schema)


class PulsarSerializationSchema:
    """How records are written as messages."""

    @staticmethod
    def flink_schema(serialization_schema: SerializationSchema[Any]) -> SerializationSchema[Any]:
        """Return the schema: sinks take it as it is.

        >>> from tidemill.common.serialization import SimpleStringSchema
        >>> type(PulsarSerializationSchema.flink_schema(SimpleStringSchema())).__name__
        'SimpleStringSchema'
        """
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeError(f"a SerializationSchema is needed, not {type(serialization_schema).__name__}")
        return serialization_schema
