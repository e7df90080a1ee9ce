"""`to_internal_type` and `from_internal_type` give what PyFlink's give, and PyFlink's names of types lead to types."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tidemill.common import Instant, Row
from tidemill.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    DateTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    SqlTimeTypeInfo,
    TypeInformation,
    Types,
    WrapperTypeInfo,
)

ROW = Types.ROW_NAMED(["day", "n"], [Types.SQL_DATE(), Types.INT()])


@pytest.mark.parametrize(
    ("type_info", "value", "internal"),
    [
        (Types.SQL_DATE(), dt.date(1970, 1, 3), 2),
        (Types.SQL_TIME(), dt.time(1, 2, 3, 4), 3_723_000_004),
        (Types.INSTANT(), Instant.of_epoch_milli(1_500), 1_500_000),
        (ROW, Row(day=dt.date(1970, 1, 2), n=5), (1, 5)),
        (Types.TUPLE([Types.SQL_DATE(), ROW]), (dt.date(1970, 1, 2), Row(day=None, n=1)), (1, (None, 1))),
        (Types.LIST(Types.SQL_DATE()), [dt.date(1970, 1, 2), None], [1, None]),
        (Types.MAP(Types.STRING(), Types.SQL_DATE()), {"a": dt.date(1970, 1, 2)}, {"a": 1}),
    ],
)
def test_a_value_and_its_internal_form(type_info: TypeInformation, value: Any, internal: Any) -> None:
    assert type_info.need_conversion()
    assert type_info.to_internal_type(value) == internal
    assert type_info.from_internal_type(internal) == value


def test_a_point_in_time_keeps_its_microseconds() -> None:
    value = dt.datetime(2020, 1, 1, 12, 30, 1, 5)  # noqa: DTZ001 - as programs have it
    internal = Types.SQL_TIMESTAMP().to_internal_type(value)
    assert internal % 1_000_000 == 5
    assert Types.SQL_TIMESTAMP().from_internal_type(internal) == value


def test_a_row_may_be_given_as_a_dict_or_an_object() -> None:
    assert ROW.to_internal_type({"day": dt.date(1970, 1, 2), "n": 1}) == (1, 1)
    assert Types.ROW_NAMED(["years"], [Types.INT()]).to_internal_type(type("P", (), {"years": 3})()) == (3,)


@pytest.mark.parametrize("type_info", [Types.STRING(), Types.LONG(), Types.LIST(Types.INT()), PickledBytesTypeInfo()])
def test_most_values_have_no_other_form(type_info: TypeInformation) -> None:
    value = object()
    assert not type_info.need_conversion()
    assert type_info.to_internal_type(value) is value
    assert type_info.from_internal_type(value) is value


@pytest.mark.parametrize(
    ("named", "same"),
    [
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), Types.SQL_DATE()),
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), Types.SQL_TIME()),
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME), Types.SQL_TIMESTAMP()),
        (InstantTypeInfo(BasicType.INSTANT), Types.INSTANT()),
        (ExternalTypeInfo(ROW), ROW),
        (BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO(), Types.BASIC_ARRAY(Types.STRING())),
        (PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (PickledBytesTypeInfo.PICKLED_BYTE_ARRAY_TYPE_INFO(), Types.PICKLED_BYTE_ARRAY()),
        (SqlTimeTypeInfo.DATE(), Types.SQL_DATE()),
    ],
)
def test_pyflinks_names_of_types_lead_to_types(named: TypeInformation, same: TypeInformation) -> None:
    assert named == same
    assert isinstance(named, WrapperTypeInfo)


def test_what_types_of_rows_have_as_attributes() -> None:
    assert ROW.types == [Types.SQL_DATE(), Types.INT()]
    assert ROW.field_names == ["day", "n"]
    assert Types.TUPLE([Types.INT()]).types == [Types.INT()]
    assert dt.date.fromordinal(DateTypeInfo.EPOCH_ORDINAL) == dt.date(1970, 1, 1)
