"""Avro records with schemas in a schema registry, in Confluent's format.

A record begins with a zero byte and the id of its schema in four bytes. The registry returns the schema of an id, and
registers a schema under a subject. Each process requests a schema once.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from tidemill.common.serialization import DeserializationSchema, SerializationSchema
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.formats.avro import to_avro
from tidemill.connectors.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, library, parsed
from tidemill.errors import ConfigurationError, ConnectorError, SerializationError

__all__ = ["ConfluentRegistryAvroDeserializationSchema", "ConfluentRegistryAvroSerializationSchema", "SchemaRegistry"]

_MAGIC: Final = 0
_prefix: Final = struct.Struct("!BI")
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
#: Seconds that the registry may take to respond.
_TIMEOUT: Final = 10.0
#: The pauses before further attempts if the registry does not respond, in seconds.
_PAUSES: Final = (0.5, 1.0, 2.0)
_SCHEMES: Final = ("http", "https")


class SchemaRegistry:
    """A client of a schema registry; ``url`` may contain a user and a password, which are never displayed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ConfigurationError("the URL of a schema registry must be http://host:port or https://host:port")
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": _TYPE, "Content-Type": _TYPE}
        if parts.username:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url})"

    def schema(self, number: int) -> str:
        """Return the schema with an id, as JSON."""
        return str(self._request(f"/schemas/ids/{number}")["schema"])

    def register(self, subject: str, schema: str) -> int:
        """Register a schema under a subject, and return its id; that of the same schema if it is registered already."""
        return int(self._request(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})["id"])

    def _request(self, path: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, self._headers)  # noqa: S310 - http or https
        for pause in (*_PAUSES, None):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 - http or https
                    return json.load(response)
            except urllib.error.HTTPError as error:
                told = error.read().decode(errors="replace")[:500]
                if error.code < 500 or pause is None:
                    raise ConnectorError(
                        f"the schema registry at {self.url} rejected {path}: {error.code} {told}"
                    ) from None
            except (OSError, ValueError) as error:
                if pause is None:
                    raise ConnectorError(f"the schema registry at {self.url} does not respond: {error}") from None
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema[dict[str, Any]]):
    """Deserializes records whose schemas are in a registry to dicts; created with :meth:`for_generic`.

    Each record is read with the schema that it was written with, and converted to the schema of the reader by Avro's
    rules of schema resolution.
    """

    def __init__(self, schema: AvroSchema, url: str) -> None:
        self._schema = schema
        self._url = url
        self._registry = SchemaRegistry(url)
        self._reader = parsed(str(schema))[0]
        self._writers: dict[int, Any] = {}
        self._read: Callable[..., Any] = library().schemaless_reader

    @staticmethod
    def for_generic(schema: AvroSchema, url: str) -> ConfluentRegistryAvroDeserializationSchema:
        """Create a schema for dicts with the fields of ``schema``; ``url`` is that of the registry."""
        return ConfluentRegistryAvroDeserializationSchema(schema, url)

    def deserialize(self, message: bytes) -> dict[str, Any]:
        if len(message) < _prefix.size or message[0] != _MAGIC:
            raise SerializationError("it does not begin with a zero byte and the id of a schema, as a registry needs")
        number = _prefix.unpack_from(message)[1]
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = parsed(self._registry.schema(number))[0]
        stream = io.BytesIO(message)
        stream.seek(_prefix.size)
        try:
            record: dict[str, Any] = self._read(stream, writer, self._reader)
        except Exception as error:
            raise SerializationError(f"it is not a record with schema {number} in Avro: {error!r}") from error
        if stream.tell() != len(message):
            raise SerializationError(f"{len(message) - stream.tell()} bytes are left over after a record in Avro")
        return record

    def get_produced_type(self) -> TypeInformation:
        return GenericRecordAvroTypeInfo(self._schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return (ConfluentRegistryAvroDeserializationSchema, (self._schema, self._url))


class ConfluentRegistryAvroSerializationSchema(SerializationSchema[Any]):
    """Serializes dicts or rows, and registers their schema under a subject; created with :meth:`for_generic`.

    The schema is registered with the first record of each process.
    """

    def __init__(self, subject: str, schema: AvroSchema, url: str) -> None:
        self._subject = subject
        self._schema = schema
        self._url = url
        self._registry = SchemaRegistry(url)
        self._writer, names = parsed(str(schema))
        self._shape = to_avro(self._writer, names)
        self._start: bytes | None = None
        self._write: Callable[..., None] = library().schemaless_writer

    @staticmethod
    def for_generic(subject: str, schema: AvroSchema, url: str) -> ConfluentRegistryAvroSerializationSchema:
        """Create a schema. The subject of the values of a topic is usually ``<topic>-value``."""
        return ConfluentRegistryAvroSerializationSchema(subject, schema, url)

    def serialize(self, element: Any) -> bytes:
        if self._start is None:
            self._start = _prefix.pack(_MAGIC, self._registry.register(self._subject, str(self._schema)))
        out = io.BytesIO()
        out.write(self._start)
        try:
            self._write(out, self._writer, self._shape(element), strict_allow_default=True)
        except Exception as error:
            raise SerializationError(f"{element!r} does not fit its Avro schema: {error}") from error
        return out.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return (ConfluentRegistryAvroSerializationSchema, (self._subject, self._schema, self._url))
