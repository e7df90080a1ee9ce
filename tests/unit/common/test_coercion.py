"""Values that are not exactly of their declared type: converted as in Flink, or errors if types are strict."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tidemill.common import Configuration, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import TypeMismatchError

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("type_info", "given", "found"),
    [
        (Types.INT(), [1.9, True, np.int64(2), Decimal("-3.7")], [1, 1, 2, -3]),
        (Types.FLOAT(), [0.1, 1, 1e39], [0.10000000149011612, 1.0, float("inf")]),
        (Types.DOUBLE(), [Decimal("0.5"), np.float32(0.5)], [0.5, 0.5]),
        (Types.BOOLEAN(), [0, 2, 0.5], [False, True, False]),
        (Types.BIG_DEC(), [1, 0.1, "1.50", None], [Decimal(1), Decimal("0.1"), Decimal("1.50"), None]),
        (Types.SQL_DATE(), [NOON], [dt.date(2024, 2, 29)]),
        (Types.SQL_TIME(), [NOON, dt.time(1, 2, 3, 4567)], [dt.time(12, 0, 0, 123000), dt.time(1, 2, 3, 4000)]),
        (Types.SQL_TIMESTAMP(), [NOON], [NOON.replace(tzinfo=None, microsecond=123000)]),
        (Types.TUPLE([Types.INT(), Types.BIG_DEC()]), [(1.5, 2)], [(1, Decimal(2))]),
        (Types.LIST(Types.INT()), [[1.5, None]], [[1, None]]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1.5, "b": None}], [{"a": 1, "b": None}]),
    ],
    ids=str,
)
def test_values_are_converted(type_info: TypeInformation, given: list[Any], found: list[Any]) -> None:
    converted = type_info.shaper(strict=False)(given)
    assert converted == found
    assert [type(value) for value in converted] == [type(value) for value in found]
    assert type_info.shaper(strict=False)(converted) == converted


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.INT(), "5"),
        (Types.INT(), 2**31),
        (Types.INT(), float("nan")),
        (Types.FLOAT(), 10**400),
        (Types.BOOLEAN(), 256),
        (Types.BIG_DEC(), "x"),
        (Types.SQL_DATE(), 19000),
        (Types.STRING(), b"a"),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.LIST(Types.INT()), "12"),
    ],
    ids=str,
)
def test_what_flink_refuses_is_an_error(type_info: TypeInformation, value: Any) -> None:
    with pytest.raises(TypeMismatchError):
        type_info.shaper(strict=False)([value])


def test_batches_that_fit_are_passed_on() -> None:
    for type_info, batch in (
        (Types.INT(), [1, 2]),
        (Types.FLOAT(), [0.5, 1.5]),
        (Types.SQL_TIMESTAMP(), [dt.datetime(2024, 1, 1), None]),  # noqa: DTZ001 - without a zone
        (Types.TUPLE([Types.INT()]), [(1,), (2,)]),
    ):
        values: list[Any] = list(batch)
        assert type_info.shaper(strict=False)(values) is values


def collected(strict: bool) -> list[Any]:
    settings = {"execution.target": "local", "parallelism.default": "1", "pipeline.strict-types": str(strict).lower()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    with env.from_collection([1]).map(lambda n: n + 0.5, Types.INT()).execute_and_collect() as found:
        return list(found)


def test_strict_types_are_an_option() -> None:
    assert collected(strict=False) == [1]
    with pytest.raises(TypeMismatchError, match=r"expected Integer, got float 1\.5"):
        collected(strict=True)


def test_narrow_integers_of_a_collection_keep_their_lowest_bits() -> None:
    assert Types.SHORT().coercer_of_literals()([40000, -1, 1.5]) == [-25536, -1, 1]
    assert Types.BYTE().coercer_of_literals()([200, 127, -129]) == [-56, 127, 127]
