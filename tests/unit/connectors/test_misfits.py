"""The error for a record of a file that does not fit its schema has the field and its type, no values and no keys."""

from __future__ import annotations

import pytest

from tidemill.connectors.file_system.misfits import Misfit

SCHEMA = "id LONG, small TINYINT, ok BOOLEAN, price DECIMAL(5,2), rate DOUBLE, day DATE, note STRING"
NESTED = "at STRUCT<x: INT, y: ARRAY<INT>>, by MAP<STRING, INT>"


@pytest.mark.parametrize(
    ("schema", "record", "told"),
    [
        (SCHEMA, '{"id": "secret"}', "field 'id' is a string, but the schema requires BIGINT"),
        (SCHEMA, '{"id": 1.5}', "field 'id' is a number, but the schema requires BIGINT"),
        (SCHEMA, '{"id": true}', "field 'id' is a boolean, but the schema requires BIGINT"),
        (SCHEMA, '{"id": 1, "small": 128}', "field 'small' is a number, but the schema requires TINYINT"),
        (SCHEMA, '{"ok": 1}', "field 'ok' is a number, but the schema requires BOOLEAN"),
        (SCHEMA, '{"price": "1,50"}', "field 'price' is a string, but the schema requires DECIMAL(5,2)"),
        (SCHEMA, '{"rate": "high"}', "field 'rate' is a string, but the schema requires DOUBLE"),
        (SCHEMA, '{"day": []}', "field 'day' is an array, but the schema requires DATE"),
        (NESTED, '{"at": 1}', "field 'at' is a number, but the schema requires STRUCT<`x`: INT, `y`: ARRAY<INT>>"),
        (NESTED, '{"at": {"x": 1, "y": [1, "secret"]}}', "field 'at.y[1]' is a string, but the schema requires INT"),
        (NESTED, '{"by": {"a": 1, "secret": {}}}', "field 'by[entry 1]' is an object, but the schema requires INT"),
        (SCHEMA, '[{"id": 1}, {"id": "secret"}]', "field 'id' is a string, but the schema requires BIGINT"),
        (SCHEMA, '{"id": 1', "it is not valid JSON: Expecting ',' delimiter at character 9"),
        (SCHEMA, '"secret"', "it is a string, not an object"),
    ],
)
def test_json(schema: str, record: str, told: str) -> None:
    assert Misfit("json", record, schema).problem() == told


@pytest.mark.parametrize(
    ("record", "options", "told"),
    [
        ("secret,1,true,1.5,2,2024-01-01,n", {}, "column 'id' is not a valid BIGINT"),
        ("1,128,true,1.5,2,2024-01-01,n", {}, "column 'small' is not a valid TINYINT"),
        ("1,1,yes,1.5,2,2024-01-01,n", {}, "column 'ok' is not a valid BOOLEAN"),
        ("1;1;true;1,5;2;2024-01-01;n", {"sep": ";"}, "column 'price' is not a valid DECIMAL(5,2)"),
        ("1|-|true|1|2|2024-01-01|n", {"delimiter": "|"}, "column 'small' is not a valid TINYINT"),
        ("1|-|TRUE|1|two|2024-01-01|n", {"delimiter": "|", "nullvalue": "-"}, "column 'rate' is not a valid DOUBLE"),
        ("1,,true", {}, "it has 3 values, but the schema has 7 columns"),
        ('"x\\",1', {"escape": ""}, "column 'id' is not a valid BIGINT"),
        ('"1,2",1', {"quote": ""}, "column 'id' is not a valid BIGINT"),
        ("1,1,true,1,2,2024-01-01,'a,b',more", {"quote": "'"}, "it has 8 values, but the schema has 7 columns"),
    ],
)
def test_csv(record: str, options: dict[str, str], told: str) -> None:
    assert Misfit("csv", record, SCHEMA, options).problem() == told


@pytest.mark.parametrize(
    "misfit",
    [
        Misfit("json", '{"day": "the day before yesterday"}', SCHEMA),
        Misfit("csv", "1,1,true,1,2,the day before yesterday,n", SCHEMA),
        Misfit("csv", "x||1", SCHEMA, {"sep": "||"}),
        Misfit("csv", "9" * 5000, SCHEMA),
        Misfit("json", '{"id": ' + "9" * 5000 + "}", SCHEMA),
        Misfit("json", "[" * 100_000, SCHEMA),
    ],
    ids=["JSON", "CSV", "long separator", "long number", "long JSON number", "deep JSON"],
)
def test_where_the_cause_of_sparks_error_is_unclear_the_schema_is_shown(misfit: Misfit) -> None:
    assert misfit.problem() == f"the schema is {SCHEMA}"
