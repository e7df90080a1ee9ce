"""Avro files and individual records in Avro format, under PyFlink's names. Needs the extra ``avro``."""

from __future__ import annotations

from tidemill.connectors.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
)
from tidemill.connectors.formats.avro_files import (
    AvroBulkWriters,
    AvroInputFormat,
)
from tidemill.connectors.formats.avro_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from tidemill.connectors.formats.avro_schema import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(
            ("BulkWriterFactory", "DeserializationSchema", "SerializationSchema"), "tidemill.common.serialization"
        ),
        "InputFormat": "tidemill.connectors.file_system",
        "TypeInformation": "tidemill.common.typeinfo",
    },
)
