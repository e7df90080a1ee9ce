"""Rows as JSON, CSV and Avro: what is written is read again, what does not fit is reported."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest

from tidemill.common import Row, Types
from tidemill.common.serialization import DeserializationSchema, SerializationSchema
from tidemill.common.typeinfo import RowTypeInfo
from tidemill.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tidemill.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from tidemill.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tidemill.errors import ConfigurationError, SerializationError, TypeMismatchError

FIELDS: dict[str, tuple[Any, Any]] = {
    "id": (Types.LONG(), 2**62),
    "big": (Types.BIG_INT(), 2**80),
    "price": (Types.BIG_DEC(), Decimal("12.340000000000000000001")),
    "ratio": (Types.DOUBLE(), 0.1),
    "open": (Types.BOOLEAN(), True),
    "name": (Types.STRING(), 'é "quoted", with a comma'),
    "raw": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    "day": (Types.SQL_DATE(), dt.date(2024, 2, 29)),
    "time": (Types.SQL_TIME(), dt.time(23, 59, 58, 120)),
    "at": (Types.SQL_TIMESTAMP(), dt.datetime.fromisoformat("2024-02-29T01:02:03.004")),
    "numbers": (Types.LIST(Types.INT()), [1, 2]),
    "nothing": (Types.LONG(), None),
}
FLAT = Types.ROW_NAMED(list(FIELDS), [kind for kind, _ in FIELDS.values()])
ROW = Row(**{name: value for name, (_, value) in FIELDS.items()})

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "last", "type": ["null", "shop.Item"]},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "mixed", "type": ["null", "int", "string"]},
    ],
}
ORDER = Row(
    id=1,
    note=None,
    at=dt.datetime.fromisoformat("2024-01-02T03:04:05.006"),
    local=dt.datetime.fromisoformat("2024-01-02T03:00"),
    items=[Row(sku="x")],
    last=Row(sku="y"),
    tags={"a": 1.5},
    kind="B",
    price=Decimal("12.30"),
    mixed="x",
)


def json_reader(type_info: RowTypeInfo = FLAT) -> JsonRowDeserializationSchema.Builder:
    return JsonRowDeserializationSchema.builder().type_info(type_info)


def test_rows_come_back_as_they_were() -> None:
    avro = json.dumps(AVRO)
    pairs: list[tuple[SerializationSchema[Any], DeserializationSchema[Any], Row]] = [
        (JsonRowSerializationSchema.builder().with_type_info(FLAT).build(), json_reader().build(), ROW),
        (
            CsvRowSerializationSchema.Builder(FLAT).build(),
            CsvRowDeserializationSchema.Builder(FLAT).build(),
            ROW,
        ),
        (
            AvroRowSerializationSchema(avro_schema_string=avro),
            AvroRowDeserializationSchema(avro_schema_string=avro),
            ORDER,
        ),
    ]
    for *schemas, row in pairs:
        write, read = pickle.loads(pickle.dumps(schemas))  # they go to workers
        found = read.deserialize(write.serialize(row))
        assert found == row
        read.get_produced_type().validate(found)


# ----------------------------------------------------------------------------------------------------------------- JSON


def test_json_has_rows_maps_and_tuples_inside() -> None:
    inner = Types.ROW_NAMED(["x"], [Types.INT()])
    kinds = [inner, Types.MAP(Types.STRING(), inner), Types.TUPLE([Types.INT(), Types.STRING()]), Types.LIST(inner)]
    type_info = Types.ROW_NAMED(["row", "map", "pair", "list"], kinds)
    row = Row(row=Row(x=1), map={"k": Row(x=2), "none": None}, pair=(3, "p"), list=[Row(x=4)])
    text = JsonRowSerializationSchema.builder().with_type_info(type_info).build().serialize(row)
    assert json.loads(text) == {
        "row": {"x": 1},
        "map": {"k": {"x": 2}, "none": None},
        "pair": [3, "p"],
        "list": [{"x": 4}],
    }
    assert json_reader(type_info).build().deserialize(text) == row


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b'{"id": "7"}', "field 'id': '7' is not an integer"),
        (b'{"id": true}', "field 'id': True is not an integer"),
        (b'{"id": 99999999999999999999}', "must be between"),
        (b'{"ratio": "x"}', "'x' is not a number"),
        (b'{"day": "yesterday"}', "field 'day': Invalid isoformat"),
        (b'{"numbers": {}}', "is not an array"),
        (b"[]", "is not an object"),
        (b'{"id": 7', "line 1 column"),
        (b"\xff", "can't decode"),
    ],
)
def test_what_does_not_fit_is_reported_or_skipped(message: bytes, told: str) -> None:
    with pytest.raises(SerializationError, match=told):
        json_reader().build().deserialize(message)
    assert json_reader().ignore_parse_errors().build().deserialize(message) is None


def test_a_missing_field_is_none_or_refused() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])
    assert json_reader(type_info).build().deserialize(b'{"a": 1}') == Row(a=1, b=None)
    with pytest.raises(SerializationError, match="field 'b' is missing"):
        json_reader(type_info).fail_on_missing_field().build().deserialize(b'{"a": 1}')


def test_a_time_of_another_zone_is_that_time_in_utc() -> None:
    type_info = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
    found = json_reader(type_info).build().deserialize(b'{"at": "2024-01-01T02:00:00+02:00"}')
    assert found == Row(at=dt.datetime.fromisoformat("2024-01-01"))


def test_a_json_schema_says_what_the_rows_are() -> None:
    schema = {
        "definitions": {"place": {"type": "object", "properties": {"lat": {"type": "number"}}}},
        "type": "object",
        "properties": {
            "id": {"type": ["integer", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "raw": {"type": "string", "contentEncoding": "base64"},
            "place": {"$ref": "#/definitions/place"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }
    read = JsonRowDeserializationSchema.builder().json_schema(json.dumps(schema)).build()
    place = Types.ROW_NAMED(["lat"], [Types.BIG_DEC()])
    raw = Types.PRIMITIVE_ARRAY(Types.BYTE())
    kinds = [Types.BIG_INT(), Types.SQL_TIMESTAMP(), raw, place, Types.OBJECT_ARRAY(Types.STRING())]
    assert read.get_produced_type() == Types.ROW_NAMED(["id", "at", "raw", "place", "tags"], kinds)
    assert read.deserialize(b'{"id": 1, "place": {"lat": 1.5}}') == Row(
        id=1, at=None, raw=None, place=Row(lat=Decimal("1.5")), tags=None
    )
    for wrong in ('{"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}', "{", '{"$ref": "x#/y"}'):
        with pytest.raises(TypeMismatchError):
            JsonRowDeserializationSchema.builder().json_schema(wrong)


def test_no_string_is_taken_for_a_decimal() -> None:
    type_info = Types.ROW_NAMED(["text", "price"], [Types.STRING(), Types.BIG_DEC()])
    schema = JsonRowSerializationSchema.builder().with_type_info(type_info).build()
    row = Row('\x00decimal 5,"injected":1', Decimal("1.50"))
    assert json.loads(schema.serialize(row), parse_float=Decimal) == {"text": row[0], "price": row[1]}


def test_json_needs_the_type_of_rows() -> None:
    with pytest.raises(ValueError, match=r"type_info\(\) or json_schema\(\)"):
        JsonRowDeserializationSchema.builder().build()
    with pytest.raises(TypeMismatchError, match=r"Types\.ROW_NAMED"):
        JsonRowSerializationSchema.builder().with_type_info(Types.LONG())
    with pytest.raises(TypeMismatchError, match="must have string keys"):
        json_reader(Types.ROW([Types.MAP(Types.INT(), Types.INT())])).build()
    write = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(SerializationError, match="object cannot be represented in JSON"):
        write.build().serialize(Row(object()))


# ------------------------------------------------------------------------------------------------------------------ CSV

PAIR = Types.ROW_NAMED(["id", "names"], [Types.INT(), Types.LIST(Types.STRING())])


def test_csv_is_read_as_it_was_said() -> None:
    builder = CsvRowDeserializationSchema.Builder(PAIR).set_field_delimiter("|").set_array_element_delimiter(":")
    builder.set_quote_character("'").set_escape_character("\\").set_null_literal("n/a").set_allow_comments(True)
    read = builder.build()
    assert read.deserialize(b"7|a\\|b:c\n") == Row(id=7, names=["a|b", "c"])
    assert read.deserialize(b"n/a|n/a") == Row(id=None, names=None)
    assert read.deserialize(b"# 1|a") is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"1", "it has 1 fields, not 2"),
        (b"x,a", "invalid literal"),
        (b"99999999999,a", "must be between"),
        (b'1,"', "unexpected end"),
    ],
)
def test_a_line_that_does_not_fit_is_reported_or_skipped(line: bytes, told: str) -> None:
    builder = CsvRowDeserializationSchema.Builder(PAIR)
    with pytest.raises(SerializationError, match=told):
        builder.build().deserialize(line)
    assert builder.set_ignore_parse_errors(True).build().deserialize(line) is None


def test_csv_is_written_as_it_was_said() -> None:
    plain = CsvRowSerializationSchema.Builder(PAIR)
    assert plain.build().serialize(Row(1, ["a", "b,c"])) == b'1,"a;b,c"\n'
    assert plain.build().serialize(Row(None, None)) == b",\n"
    other = CsvRowSerializationSchema.Builder(PAIR).set_field_delimiter("|").set_line_delimiter("")
    other.set_array_element_delimiter(":").set_null_literal("n/a").disable_quote_character()
    assert other.build().serialize(Row(None, ["a|", "b"])) == b"n/a|a|:b"
    with pytest.raises(SerializationError, match="does not fit"):
        plain.build().serialize(Row(1, 2, 3))
    with pytest.raises(TypeMismatchError, match="cannot be represented in CSV"):
        CsvRowDeserializationSchema.Builder(Types.ROW([PAIR])).build()


# ----------------------------------------------------------------------------------------------------------------- Avro


def test_what_is_not_avro_is_reported() -> None:
    read = AvroRowDeserializationSchema(avro_schema_string=json.dumps(AVRO))
    whole = AvroRowSerializationSchema(avro_schema_string=json.dumps(AVRO)).serialize(ORDER)
    for broken in (b"", whole[:-1], whole + b"\x00"):
        with pytest.raises(SerializationError, match="in Avro"):
            read.deserialize(broken)
    with pytest.raises(SerializationError, match="does not fit its Avro schema"):
        AvroRowSerializationSchema(avro_schema_string=json.dumps(AVRO)).serialize(Row(1))


def test_an_avro_schema_must_be_that_of_a_record() -> None:
    for wrong in ('"long"', "{", '{"type": "record"}'):
        with pytest.raises(TypeMismatchError):
            AvroRowDeserializationSchema(avro_schema_string=wrong)
    with pytest.raises(ConfigurationError, match="no Java classes"):
        AvroRowDeserializationSchema("org.example.Order")
    with pytest.raises(TypeError, match="avro_schema_string is needed"):
        AvroRowSerializationSchema()


def test_a_record_may_hold_itself() -> None:
    schema = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    text = json.dumps(schema)
    row = Row(value=1, next=Row(value=2, next=None))
    encoded = AvroRowSerializationSchema(avro_schema_string=text).serialize(row)
    assert AvroRowDeserializationSchema(avro_schema_string=text).deserialize(encoded) == row
