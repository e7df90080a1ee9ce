"""CSV and JSON lines as the file sink writes them; that Spark reads the same is tested on Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Row, Types
from tidemill.common.time import Instant
from tidemill.connectors.file_system.csv_rows import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    CsvSchemaBuilder,
)
from tidemill.connectors.file_system.json_lines import json_lines_encoder
from tidemill.errors import GraphError, TypeMismatchError


def columns() -> CsvSchemaBuilder:
    return CsvSchema.builder().add_number_column("id", Types.DOUBLE()).add_string_column("text")


def written(schema: CsvSchema, *records: Any) -> str:
    file = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(file)
    for record in records:
        writer.add_element(record)
    writer.finish()
    return file.getvalue().decode()


class TestCsv:
    def test_a_skipped_line_is_no_header(self) -> None:
        schema = columns().set_use_header().set_skip_first_data_row(False).build()
        assert written(schema, (1.0, "a")).startswith("id,text\n")
        skipping = columns().set_skip_first_data_row().build()
        assert written(skipping, (1.0, "a")) == "1.0,a\n"
        assert dict(CsvReaderFormat.for_schema(skipping).options)["header"] == "true"

    def test_texts_are_quoted_where_they_need_it(self) -> None:
        rows = [(1, "plain"), (2, "a,b"), (3, 'say "a"'), (4, "two\nlines"), (5, " "), (6, ""), (7, None)]
        assert written(columns().build(), *rows) == (
            '1.0,plain\n2.0,"a,b"\n3.0,"say ""a"""\n4.0,"two\nlines"\n5.0," "\n6.0,""\n7.0,\n'
        )

    def test_settings(self) -> None:
        builder = columns().set_column_separator(";").set_quote_char("'").set_escape_char("\\").set_null_value("NULL")
        schema = builder.set_line_separator("\r\n").set_use_header().build()
        assert written(schema, (1, "it's"), (None, "NULL"), (None, "a,b")) == (
            "id;text\r\n1.0;'it\\'s'\r\nNULL;'NULL'\r\nNULL;a,b\r\n"
        )
        options = dict(CsvReaderFormat.for_schema(schema).options)
        assert (options["sep"], options["quote"], options["escape"], options["nullValue"]) == (";", "'", "\\", "NULL")
        assert (options["header"], options["enforceSchema"], options["mode"]) == ("true", "true", "FAILFAST")

    def test_numbers_that_are_none(self) -> None:
        assert written(columns().build(), (math.nan, "a"), (-math.inf, "b")) == "NaN,a\n-Inf,b\n"

    def test_several_files_have_one_header(self, tmp_path: Path) -> None:
        schema = columns().set_use_header().build()
        for name in ("1", "2"):
            (tmp_path / name).write_text(written(schema, (int(name), "x")))
        factory: Any = CsvBulkWriters.for_schema(schema)
        file = io.BytesIO()
        factory.merge([tmp_path / "1", tmp_path / "2"], file)
        assert file.getvalue().decode() == "id,text\n1.0,x\n2.0,x\n"

    def test_what_is_refused(self) -> None:
        with pytest.raises(TypeMismatchError, match="needs quotes"):
            written(columns().disable_quote_char().build(), (1, "a,b"))
        with pytest.raises(TypeMismatchError, match="column 'id' is DOUBLE, which 'x' does not fit"):
            written(columns().build(), ("x", "a"))
        with pytest.raises(GraphError, match="an array in a CSV file cannot contain DATE"):
            columns().add_array_column("list", ";", Types.SQL_DATE())
        with pytest.raises(GraphError, match="array column 'list' needs a separator"):
            columns().add_array_column("list", "").disable_array_element_separator().build()
        with pytest.raises(TypeMismatchError, match="'a;b' contains ';', which separates"):
            written(columns().add_array_column("list").build(), (1, "x", ["a;b"]))
        with pytest.raises(GraphError, match=r"cannot contain ARRAY<INT>"):
            columns().add_column("list", "ARRAY<INT>")
        with pytest.raises(GraphError, match="at least one column"):
            columns().clear_columns().build()
        with pytest.raises(ValueError, match="single character"):
            columns().set_column_separator("||")


@dataclasses.dataclass
class Point:
    x: int
    at: dt.date


def test_json_lines() -> None:
    out = io.BytesIO()
    for record in (
        Row(id=1, name="ä\n", price=Decimal("0.10"), tags=["a", None], inner=Row(n=None)),
        Point(1, dt.date(2024, 2, 29)),
        {"at": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), "i": Instant(1, 500_000_000), "b": b"\0"},
        ("a", True, 1.5),
    ):
        json_lines_encoder().encode(record, out)
    assert out.getvalue().decode().splitlines() == [
        '{"id":1,"name":"ä\\n","price":0.10,"tags":["a",null],"inner":{"n":null}}',
        '{"x":1,"at":"2024-02-29"}',
        '{"at":"2024-01-01T00:00:00+00:00","i":"1970-01-01T00:00:01.500000+00:00","b":"AA=="}',
        '["a",true,1.5]',
    ]
