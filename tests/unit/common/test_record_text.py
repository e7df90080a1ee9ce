"""Records are written as text as Flink writes them: in the forms of Java."""

from __future__ import annotations

import datetime as dt
from array import array
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tidemill.common import Instant, Row, RowKind
from tidemill.common.type_kinds.record_text import record_text


class Point(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        (7, "7"),
        (None, "null"),
        (True, "true"),
        ((), "()"),
        (("to", 2, None, ("x", False)), "(to,2,null,(x,false))"),
        ([1, [2.0]], "[1, [2.0]]"),
        pytest.param({"a": 1, "b": None}, "{a=1, b=null}", id="dict"),
        (Row(id=1, who="x"), "+I[1, x]"),
        (Row.of_kind(RowKind.UPDATE_BEFORE, None), "-U[null]"),
        (Decimal("1.50"), "1.50"),
        (dt.date(2020, 1, 2), "2020-01-02"),
        (dt.time(1, 2, 3, 4000), "01:02:03"),
        (dt.datetime.fromisoformat("2020-01-02T03:04:05"), "2020-01-02 03:04:05.0"),
        (dt.datetime.fromisoformat("2020-01-02T03:04:05.678"), "2020-01-02 03:04:05.678"),
        (dt.datetime.fromisoformat("0099-01-02T03:04:05"), "0099-01-02 03:04:05.0"),
        (array("d", [1, 2.5]), "[1.0, 2.5]"),
        (Instant.of_epoch_milli(-1), "1969-12-31T23:59:59.999Z"),
        (Instant.of_epoch_milli(5000), "1970-01-01T00:00:05Z"),
        (Instant(1, 5000), "1970-01-01T00:00:01.000005Z"),
        (Instant(-62135596800 - 1, 0), "0000-12-31T23:59:59Z"),
        (Instant(-62167219200 - 1, 0), "-0001-12-31T23:59:59Z"),
        (Instant(253402300800, 0), "+10000-01-01T00:00:00Z"),
        (Instant.of_epoch_milli(2**63 - 1), "+292278994-08-17T07:12:55.807Z"),
        (Point(1), "Point(x=1)"),
    ],
)
def test_texts(value: Any, text: str) -> None:
    assert record_text(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (1234567.125, "1234567.125"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.01, "0.01"),
        (0.00099, "9.9E-4"),
        (-2.5e-10, "-2.5E-10"),
        (1e300, "1.0E300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_floating_point_numbers(number: float, text: str) -> None:
    assert record_text(number) == text
