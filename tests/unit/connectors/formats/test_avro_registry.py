"""Avro with a schema registry, against a server that answers as Confluent's does."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tidemill.common import Row
from tidemill.connectors.formats import avro_registry
from tidemill.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    GenericRecordAvroTypeInfo,
)
from tidemill.errors import ConfigurationError, ConnectorError, SerializationError

ORDER = AvroSchema('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
LATER = AvroSchema(
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "note", "type": "string", "default": "none"}]}'
)


class Registry(ThreadingHTTPServer):
    """Schemas by id; ``failures`` requests are answered with an error of the server first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.schemas: list[str] = []
        self.asked: list[tuple[str, str | None]] = []
        self.failures = 0

    @property
    def url(self) -> str:
        return f"http://user:se%20cret@127.0.0.1:{self.server_address[1]}/"


class Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2])
        if number > len(self.server.schemas):
            self.answer(404, {"error_code": 40403, "message": "Schema not found"})
        else:
            self.answer(200, {"schema": self.server.schemas[number - 1]})

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in self.server.schemas:
            self.server.schemas.append(schema)
        self.answer(200, {"id": self.server.schemas.index(schema) + 1})

    def answer(self, status: int, body: Any) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        if self.server.failures:
            self.server.failures -= 1
            status, body = 503, {"message": "not yet"}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(avro_registry, "_PAUSES", (0.0, 0.0))
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_written_is_read_with_the_schema_it_was_written_with(registry: Registry) -> None:
    registry.schemas.append(str(LATER))
    writer = ConfluentRegistryAvroSerializationSchema.for_generic("orders/v-value", ORDER, registry.url)
    messages = [
        pickle.loads(pickle.dumps(writer)).serialize({"id": 7}),
        writer.serialize(Row(8)),
        writer.serialize([9]),
    ]
    assert messages[0] == b"\x00\x00\x00\x00\x02\x0e"
    reader = ConfluentRegistryAvroDeserializationSchema.for_generic(LATER, registry.url)
    copy = pickle.loads(pickle.dumps(reader))
    assert [copy.deserialize(message) for message in messages] == [{"id": n, "note": "none"} for n in (7, 8, 9)]
    assert reader.get_produced_type() == GenericRecordAvroTypeInfo(LATER)
    login = "Basic dXNlcjpzZSBjcmV0"
    post, get = ("/subjects/orders%2Fv-value/versions", login), ("/schemas/ids/2", login)
    assert registry.asked == [post, post, get], "each process asks once"


def test_the_registry_may_be_busy_for_a_while(registry: Registry) -> None:
    registry.failures = 2
    writer = ConfluentRegistryAvroSerializationSchema.for_generic("orders-value", ORDER, registry.url)
    assert writer.serialize({"id": 7})[:5] == b"\x00\x00\x00\x00\x01"
    registry.failures = 3
    again = ConfluentRegistryAvroSerializationSchema.for_generic("orders-value", ORDER, registry.url)
    with pytest.raises(ConnectorError, match=r"503.*not yet"):
        again.serialize({"id": 7})


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"\x0e", "does not begin with a zero byte"),
        (b"\x01\x00\x00\x00\x01\x0e", "does not begin with a zero byte"),
        (b"\x00\x00\x00\x00\x01", "not a record with schema 1"),
        (b"\x00\x00\x00\x00\x01\x0e\x0e", "1 bytes are left over"),
    ],
)
def test_other_bytes_are_refused(registry: Registry, message: bytes, says: str) -> None:
    registry.schemas.append(str(ORDER))
    with pytest.raises(SerializationError, match=says):
        ConfluentRegistryAvroDeserializationSchema(ORDER, registry.url).deserialize(message)


def test_a_schema_that_is_not_there_and_a_registry_that_is_not(registry: Registry) -> None:
    reader = ConfluentRegistryAvroDeserializationSchema(ORDER, registry.url)
    with pytest.raises(
        ConnectorError, match=r"127\.0\.0\.1:\d+ rejected /schemas/ids/9: 404 .*Schema not found"
    ) as told:
        reader.deserialize(b"\x00\x00\x00\x00\x09\x0e")
    assert "cret" not in str(told.value)
    with pytest.raises(ConfigurationError, match="must be http://"):
        ConfluentRegistryAvroDeserializationSchema(ORDER, "file:///etc")
    nobody = ConfluentRegistryAvroDeserializationSchema(ORDER, "http://127.0.0.1:1")
    with pytest.raises(ConnectorError, match="does not respond"):
        nobody.deserialize(b"\x00\x00\x00\x00\x09\x0e")


def test_a_record_that_does_not_fit_is_refused(registry: Registry) -> None:
    with pytest.raises(SerializationError, match="does not fit its Avro schema"):
        ConfluentRegistryAvroSerializationSchema("s", ORDER, registry.url).serialize({"id": "x"})
