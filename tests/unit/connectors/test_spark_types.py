"""Spark's types without Spark: DDL in and out, and what stands for them in records, Arrow and Types."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common import Row, Types
from tidemill.common.time import Instant
from tidemill.connectors.spark.records import RecordColumns
from tidemill.connectors.spark.schema_types import (
    ArrayOf,
    Atom,
    Field,
    MapOf,
    SparkType,
    StructOf,
    parse_schema,
    schema_from_json,
)
from tidemill.connectors.spark.type_mapping import arrow_schema_of, schema_of, type_info_of
from tidemill.errors import GraphError, TypeMismatchError

SIMPLE = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
)
NAIVE = dt.datetime(2024, 3, 10, 2, 30)  # noqa: DTZ001 - of no zone; an hour that New York skips
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
decimals = st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda two: two[1] <= two[0])


def atoms(with_decimals: bool = True) -> st.SearchStrategy[Atom]:
    simple = st.sampled_from(SIMPLE).map(Atom)
    return simple | decimals.map(lambda two: Atom("DECIMAL", two)) if with_decimals else simple


def types(leaves: st.SearchStrategy[Atom]) -> st.SearchStrategy[SparkType]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(ArrayOf, inner),
            st.builds(MapOf, leaves, inner),
            st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda one: one[0]).map(struct),
        ),
        max_leaves=6,
    )


def struct(fields: list[tuple[str, SparkType]]) -> StructOf:
    return StructOf(tuple(Field(name, kind) for name, kind in fields))


def schemas(leaves: st.SearchStrategy[Atom]) -> st.SearchStrategy[StructOf]:
    return st.lists(st.tuples(names, types(leaves)), min_size=1, max_size=4, unique_by=lambda one: one[0]).map(struct)


class TestDdl:
    @given(schemas(atoms()))
    def test_what_is_written_is_read_again(self, schema: StructOf) -> None:
        assert parse_schema(schema.ddl()) == schema

    def test_spellings(self) -> None:
        read = parse_schema(
            "a byte, b short NOT NULL, c:integer COMMENT 'it''s', d long, e DEC(5), f NUMERIC(5,2), g varchar(9)"
        )
        assert read.ddl() == (
            "`a` TINYINT, `b` SMALLINT NOT NULL, `c` INT, `d` BIGINT, `e` DECIMAL(5,0), `f` DECIMAL(5,2), `g` STRING"
        )

    @pytest.mark.parametrize(
        ("ddl", "told"),
        [
            ("id", "cannot be read here: 'id' >>> ''"),
            ("id INT,", "cannot be read here"),
            ("id INT name STRING", "cannot be read here: 'id INT' >>> ' name STRING'"),
            ("id ARRAY<INT", "cannot be read here"),
            ("id DECIMAL(39, 2)", "the precision must be 1 to 38"),
            ("id DECIMAL(5, 6)", "the precision must be 1 to 38"),
            ("id INT(3)", "INT has no parameters"),
            ("a INT, a STRING", "two columns of the same name: a"),
            ("at INTERVAL", "type 'INTERVAL' is not supported"),
            ("v VARIANT", "Cast the column"),
            ("", "at least one column"),
        ],
    )
    def test_errors_show_the_place(self, ddl: str, told: str) -> None:
        with pytest.raises(GraphError) as raised:
            parse_schema(ddl)
        assert told in str(raised.value)

    def test_intervals_in_a_schema_of_sparks_are_refused_with_their_column(self) -> None:
        field = {"name": "gap", "type": "interval day to second", "nullable": True, "metadata": {}}
        with pytest.raises(GraphError, match=r"column 'gap': type 'interval day to second'"):
            schema_from_json({"type": "struct", "fields": [field]})


class TestTypes:
    @given(schemas(atoms(with_decimals=False)))
    def test_there_and_back(self, schema: StructOf) -> None:
        assert schema_of(type_info_of(schema)) == schema

    def test_decimals_are_wide_enough_for_most(self) -> None:
        assert schema_of(type_info_of("d DECIMAL(10, 2)")).ddl() == "`d` DECIMAL(38,18)"

    def test_classes_of_ones_own(self) -> None:
        assert schema_of(Types.DATACLASS(Order)).ddl() == "`id` BIGINT, `note` STRING"
        assert schema_of(Types.NAMED_TUPLE(Point)).ddl() == "`x` DOUBLE, `y` DOUBLE"

    def test_what_has_no_type(self) -> None:
        with pytest.raises(GraphError, match=r"value\[\] has type BigInteger.*specify a schema"):
            schema_of(Types.LIST(Types.BIG_INT()))
        with pytest.raises(TypeError, match="DDL"):
            schema_of(7)


@dataclasses.dataclass
class Order:
    id: int
    note: str


class Point(NamedTuple):
    x: float
    y: float


def column(ddl: str, *values: Any) -> list[Any]:
    found: list[Any] = (
        RecordColumns(parse_schema(f"c {ddl}")).batch([(value,) for value in values]).column(0).to_pylist()
    )
    return found


class TestRecords:
    def test_every_way_to_write_a_record(self) -> None:
        columns = RecordColumns(parse_schema("id LONG, note STRING"))
        records = [Row(id=1, note="a"), Row(note="b", id=2), Row(3, "c"), (4, "d"), {"note": "e"}, Order(6, "f")]
        found = columns.batch(records)
        assert found.column(0).to_pylist() == [1, 2, 3, 4, None, 6]
        assert found.column(1).to_pylist() == ["a", "b", "c", "d", "e", "f"]

    def test_rows_of_a_type_without_names_go_by_position(self) -> None:
        """``Types.ROW([...])`` calls its fields f0, f1 and so on."""
        row = Row(f0=1, f1="a")
        assert RecordColumns(parse_schema("id LONG, note STRING")).batch([row]).to_pylist() == [{"id": 1, "note": "a"}]
        assert RecordColumns(parse_schema("f1 STRING, f0 LONG")).batch([row]).to_pylist() == [{"f1": "a", "f0": 1}]
        with pytest.raises(TypeMismatchError, match="no column for f1"):
            RecordColumns(parse_schema("f0 LONG, note STRING")).batch([row])

    def test_values_of_a_single_column(self) -> None:
        assert RecordColumns(parse_schema("n INT")).batch([1, None, (3,)]).to_pylist() == [
            {"n": 1},
            {"n": None},
            {"n": 3},
        ]
        moments = RecordColumns(parse_schema("t TIMESTAMP")).batch([Instant(7, 0)])
        assert moments.column(0).to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, 7, tzinfo=dt.timezone.utc)]
        maps = RecordColumns(parse_schema("m MAP<STRING, INT>")).batch([{"a": 1}, {"m": {"b": 2}}])
        assert maps.column(0).to_pylist(maps_as_pydicts="strict") == [{"a": 1}, {"b": 2}]

    def test_values_keep_every_bit(self) -> None:
        assert column("TINYINT", -128, 127, None) == [-128, 127, None]
        assert column("BIGINT", -(1 << 63), (1 << 63) - 1) == [-(1 << 63), (1 << 63) - 1]
        wide = Decimal("12345678901234567890.123456789012345678")
        assert column("DECIMAL(38,18)", wide, Decimal("-0.5")) == [wide, Decimal("-0.500000000000000000")]
        assert column("STRING", "", "\0ä€😀", None) == ["", "\0ä€😀", None]
        assert column("BINARY", b"", b"\0\xff", bytearray(b"x")) == [b"", b"\0\xff", b"x"]
        assert column("DATE", dt.date(1, 1, 1), dt.date(9999, 12, 31)) == [dt.date(1, 1, 1), dt.date(9999, 12, 31)]
        floats = column("DOUBLE", float("nan"), float("-inf"), -0.0, 5e-324)
        assert str(floats) == "[nan, -inf, -0.0, 5e-324]"
        assert column("FLOAT", 0.5, 1) == [0.5, 1.0]

    def test_moments_in_any_zone_and_hours_that_come_twice(self) -> None:
        new_york = ZoneInfo("America/New_York")
        twice = [dt.datetime(2024, 11, 3, 1, 30, 0, 1, tzinfo=new_york, fold=fold) for fold in (0, 1)]
        first, second = column("TIMESTAMP", *twice)
        assert (second - first, first.microsecond) == (dt.timedelta(hours=1), 1)
        assert column("TIMESTAMP", Instant(-1, 999_999_000)) == [
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.timezone.utc)
        ]
        assert column("TIMESTAMP_NTZ", NAIVE) == [NAIVE]

    def test_nested_values(self) -> None:
        kind = "STRUCT<id: INT, at: ARRAY<TIMESTAMP_NTZ>, by: MAP<STRING, STRUCT<x: INT>>>"
        at = NAIVE
        value = Row(id=1, at=[at, None], by={"a": (7,), "b": None})
        assert column(kind, value, None, (2, None, {})) == [
            {"id": 1, "at": [at, None], "by": [("a", {"x": 7}), ("b", None)]},
            None,
            {"id": 2, "at": None, "by": []},
        ]

    @pytest.mark.parametrize(
        ("ddl", "value", "told"),
        [
            ("TINYINT", 128, "TINYINT, which 128 does not fit"),
            ("INT", 1.5, "INT, which 1.5 does not fit"),
            ("ARRAY<INT>", [1, 1.5], "ARRAY<INT>, which [1, 1.5] does not fit"),
            ("INT", Decimal("1.5"), "does not fit"),
            ("INT", "1", "INT, which '1' does not fit"),
            ("STRING", 1, "STRING, which 1 does not fit"),
            ("DECIMAL(5,2)", Decimal("1.234"), "DECIMAL(5,2), which Decimal('1.234') does not fit"),
            ("DECIMAL(5,2)", Decimal(12345), "does not fit"),
            ("TIMESTAMP", NAIVE, "a TIMESTAMP needs a time zone"),
            ("TIMESTAMP_NTZ", dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), "without time zone"),
            ("TIMESTAMP", Instant(0, 1), "nanoseconds"),
            ("DATE", NAIVE, "not a date"),
            ("ARRAY<TIMESTAMP>", [NAIVE], "a TIMESTAMP needs a time zone"),
            ("STRUCT<x: INT>", {"y": 1}, "no column for y"),
        ],
    )
    def test_what_would_be_lost_is_refused_with_column_and_record(self, ddl: str, value: Any, told: str) -> None:
        with pytest.raises(TypeMismatchError) as raised:
            column(ddl, None, value)
        assert told in str(raised.value)
        assert f"({value!r},)" in str(raised.value)

    def test_records_of_another_shape(self) -> None:
        columns = RecordColumns(parse_schema("id LONG NOT NULL, note STRING"))
        for record, told in (((1,), "1 fields, but the schema has 2"), (7, "not int 7"), ((None, "a"), "NOT NULL")):
            with pytest.raises(TypeMismatchError, match=told):
                columns.batch([record])

    def test_no_records(self) -> None:
        assert RecordColumns(parse_schema("a INT, b STRUCT<c: INT>")).batch([]).num_rows == 0

    def test_arrow_types(self) -> None:
        schema = arrow_schema_of(parse_schema("a ARRAY<INT>, m MAP<STRING, DATE>, t TIMESTAMP NOT NULL"))
        assert schema.field("t") == pa.field("t", pa.timestamp("us", "UTC"), nullable=False)
        assert schema.field("m").type == pa.map_(pa.string(), pa.date32())
