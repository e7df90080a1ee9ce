"""Arrays in CSV files: what is written, and what becomes of the strings that Spark reads."""

from __future__ import annotations

import io
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidemill.common import Row, Types
from tidemill.connectors.sources import RowDecoder
from tidemill.datastream.connectors import FileSource
from tidemill.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from tidemill.errors import SerializationError
from tidemill.table import DataTypes

SCHEMA = (
    CsvSchema.builder()
    .add_number_column("id")
    .add_array_column("tags")
    .add_array_column("sizes", "|", DataTypes.INT())
    .add_array_column("flags", "", Types.BOOLEAN())
    .set_array_element_separator("/")
    .set_any_property_name("more")
    .build()
)


def written(*records: Any, schema: CsvSchema = SCHEMA) -> str:
    file = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(file)
    for record in records:
        writer.add_element(record)
    writer.finish()
    return file.getvalue().decode()


def decoder(schema: CsvSchema = SCHEMA) -> RowDecoder:
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "/data").build()
    assert source.decoder is not None
    made: RowDecoder = pickle.loads(pickle.dumps(source.decoder))
    return made


def test_elements_are_separated_and_an_empty_array_is_not_none() -> None:
    assert (
        written(
            (1, ["a", "b c"], [1, None, 3], [True, False]),
            (2, [], None, []),
            (3, ["x,y"], [], [True]),
        )
        == '1,a;b c,1||3,true/false\n2,"",,""\n3,"x,y","",true\n'
    )


def test_what_spark_reads_is_the_same_again() -> None:
    rows = pa.record_batch(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "tags": ["a;b c", "", None],
            "sizes": ["1||3", None, ""],
            "flags": ["true/FALSE", "", "true"],
            "file": ["x", "x", "x"],
        }
    )
    assert decoder().decode(rows).values == [
        Row(id=1, tags=["a", "b c"], sizes=[1, None, 3], flags=[True, False]),
        Row(id=2, tags=[], sizes=None, flags=[]),
        Row(id=3, tags=None, sizes=[], flags=[True]),
    ]


def test_spark_reads_strings() -> None:
    assert CsvReaderFormat.for_schema(SCHEMA).schema == "`id` BIGINT, `tags` STRING, `sizes` STRING, `flags` STRING"
    assert CsvReaderFormat.for_schema(CsvSchema.builder().add_number_column("id").build()).decoder is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Types.DOUBLE(), "1.5;-2", [1.5, -2.0]),
        (Types.BIG_DEC(), "1.50;2", [Decimal("1.50"), Decimal(2)]),
        (Types.STRING(), ";a;", ["", "a", ""]),
    ],
)
def test_elements_of_each_kind(kind: Any, text: str, value: list[Any]) -> None:
    schema = CsvSchema.builder().add_array_column("list", element_type=kind).build()
    assert decoder(schema).decode(pa.record_batch({"list": [text]})).values == [Row(list=value)]


def test_an_element_that_does_not_fit_is_an_error_with_its_column() -> None:
    schema = CsvSchema.builder().add_array_column("list", element_type=Types.INT()).build()
    with pytest.raises(SerializationError, match=r"column 'list' has '1;x', not ARRAY<INT>"):
        decoder(schema).decode(pa.record_batch({"list": ["1;x"]}))
    flags = CsvSchema.builder().add_array_column("list", element_type=Types.BOOLEAN()).build()
    with pytest.raises(SerializationError, match="neither true nor false"):
        decoder(flags).decode(pa.record_batch({"list": ["yes"]}))


def test_columns_of_another_schema_keep_their_separators() -> None:
    both = CsvSchema.builder().add_string_column("name").add_columns_from(SCHEMA).build()
    assert both.separators == {"tags": ";", "sizes": "|", "flags": ""} | {"flags": ";"}
    fewer = CsvSchema.builder().add_array_column("a", "|").remove_array_element_separator(0).build()
    assert fewer.separators == {"a": ";"}
    with pytest.raises(ValueError, match="'name' is not an array"):
        CsvSchema.builder().add_string_column("name").remove_array_element_separator(0)
