"""Files are read with the values that Spark 4.3 has read from them, as recorded in `tests/fixtures/spark`.

Each line there has a file, a schema, and the rows that Spark returned in the zone Europe/Berlin with `mode: FAILFAST`,
timestamps in UTC; null for an error.
"""

from __future__ import annotations

import ast
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tidemill.connectors.sources import FormatSource
from tidemill.errors import GraphError
from tidemill.local.files.format import BadRecordError, UnreadableFileError
from tidemill.local.files.formats import format_of

READINGS = Path(__file__).parents[2] / "fixtures" / "spark" / "readings.jsonl"
ZONE = ZoneInfo("Europe/Berlin")
#: What Spark accepts, and the local engine refuses: hexadecimal numbers, single quotes, texts of objects, half pairs.
REFUSED = {"0x1p3\n", "{'a':1}\n", '{"a":{"x": 1}}\n', '{"a":[1, 2]}\n', '{"a":"\\ud800"}\n'}


def plain(value: Any) -> Any:
    """A value as Spark's Python rows have it."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    if isinstance(value, dict):
        named = ", ".join(f"{key}={plain(inner)!r}" for key, inner in value.items())
        return Shown(f"Row({named})")
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


class Shown:
    """Something that is shown as this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def read(reading: dict[str, Any], data: bytes) -> str | None:
    """The rows of a file, in the form of the recording; None for an error."""
    options = {"mode": "FAILFAST", **reading["options"]} if reading["format"] != "text" else {}
    source = FormatSource(reading["format"], "/in", options, reading["schema"])
    found = format_of(source, options, ZONE)
    rows: list[tuple[Any, ...]] = []
    try:
        for batch in found.batches(io.BytesIO(data), found.schema(None)):
            columns = [column.to_pylist() for column in batch.columns]
            rows += [tuple(map(plain, row)) for row in zip(*columns, strict=True)]
    except (BadRecordError, UnreadableFileError, GraphError):
        return None
    return repr(rows)


RECORDED = [json.loads(line) for line in READINGS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("kind", ["csv", "json", "text"])
def test_values_nulls_and_errors_are_those_of_spark(kind: str) -> None:
    different = []
    for reading in RECORDED:
        if reading["format"] != kind:
            continue
        text = ast.literal_eval(reading["file"])
        found = read(reading, text if isinstance(text, bytes) else text.encode())
        wanted = None if text in REFUSED else reading["rows"]
        if found != wanted:
            different.append(f"{reading}: {found}")
    assert not different, "\n".join(different)
