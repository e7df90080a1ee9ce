from __future__ import annotations

import io
import pickle
from io import BytesIO

import pytest

from tidemill.common import ByteArraySchema, Encoder, Row, SimpleStringSchema, Types, TypeSerializer
from tidemill.common.serialization import RowFieldExtractorSchema
from tidemill.errors import SerializationError


class Number(TypeSerializer[int]):
    def __init__(self, width: int) -> None:
        self.width = width

    def serialize(self, element: int, stream: BytesIO) -> None:
        stream.write(element.to_bytes(self.width, "big"))

    def deserialize(self, stream: BytesIO) -> int:
        return int.from_bytes(stream.read(self.width), "big")


def test_text() -> None:
    latin = SimpleStringSchema("latin-1")
    assert latin.serialize("é") == b"\xe9"
    assert latin.deserialize(b"\xe9") == "é"
    assert latin.get_produced_type() == Types.STRING()
    assert not latin.is_end_of_stream("é")
    with pytest.raises(SerializationError, match="not text in UTF-8"):
        SimpleStringSchema().deserialize(b"\xe9")
    with pytest.raises(LookupError):
        SimpleStringSchema("no-such-charset")


def test_bytes() -> None:
    assert ByteArraySchema().serialize(b"a") == ByteArraySchema().deserialize(b"a") == b"a"
    assert ByteArraySchema().get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_a_field_of_a_row() -> None:
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("k", b"v")) == b"v"
    with pytest.raises(SerializationError, match="must be bytes, not str"):
        schema.serialize(Row("k", "v"))
    with pytest.raises(ValueError, match="negative"):
        RowFieldExtractorSchema(-1)


def test_encoder_writes_lines_and_can_be_pickled() -> None:
    encoder = pickle.loads(pickle.dumps(Encoder.simple_string_encoder("utf-16-le")))
    out = io.BytesIO()
    encoder.encode("a", out)
    encoder.encode(Row(1, None), out)
    assert out.getvalue().decode("utf-16-le") == "a\n+I[1, null]\n"


def test_type_serializers_compare_by_class_and_attributes() -> None:
    stream = BytesIO()
    Number(2).serialize(513, stream)
    assert Number(2).deserialize(BytesIO(stream.getvalue())) == 513
    assert Number(2) == Number(2) != Number(4)
    assert hash(Number(2)) == hash(Number(2))
    assert repr(Number(2)) == "Number()"
