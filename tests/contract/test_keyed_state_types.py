"""Values of every type that can be declared: the same object in the epoch, from the base, and from files."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tests.contract.keyed_state import NOTHING, Colour, Declared, NewBackend, Operator, Point, merged
from tidemill.common import Instant, Row, Types
from tidemill.common.typeinfo import TypeInformation


class Named(NamedTuple):
    x: int
    y: str


@dataclasses.dataclass
class Basket:
    owner: str
    items: list[int]
    note: str | None = None


NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 5)  # noqa: DTZ001 - SQL's timestamps are without a zone
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])

CASES: dict[str, tuple[TypeInformation | None, list[Any]]] = {
    "string": (Types.STRING(), ["", "a", "a\0b", "ä\U0001f600", "x" * 5000]),
    "long": (Types.LONG(), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "int": (Types.INT(), [0, 1, -(2**31)]),
    "double": (Types.DOUBLE(), [0.0, -0.5, 1e300, float("inf")]),
    "boolean": (Types.BOOLEAN(), [True, False]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\0\xff", b"x" * 5000]),
    "big int": (Types.BIG_INT(), [0, 2**200, -(2**200)]),
    "big decimal": (Types.BIG_DEC(), [Decimal("0.1"), Decimal("-1E+30"), Decimal("1.10")]),
    "instant": (Types.INSTANT(), [Instant(0, 0), Instant(-5, 999_999_999)]),
    "date": (Types.SQL_DATE(), [NOON.date(), dt.date(1, 1, 1)]),
    "time": (Types.SQL_TIME(), [NOON.time(), dt.time()]),
    "timestamp": (Types.SQL_TIMESTAMP(), [NOON, dt.datetime(1, 1, 1)]),  # noqa: DTZ001
    "tuple": (PAIR, [("a", 1), ("", -1)]),
    "list": (Types.LIST(PAIR), [[], [("a", 1), ("b", 2)]]),
    "array": (Types.BASIC_ARRAY(Types.STRING()), [[], ["a", ""]]),
    "map": (Types.MAP(Types.STRING(), Types.LIST(Types.LONG())), [{}, {"a": [1], "": []}]),
    "row": (Types.ROW([Types.STRING(), Types.LONG()]), [Row("a", 1), Row("", -1)]),
    "named row": (Types.ROW_NAMED(["k", "v"], [Types.STRING(), PAIR]), [Row(k="a", v=("b", 1))]),
    "dataclass": (Types.DATACLASS(Basket), [Basket("a", []), Basket("b", [1, 2], "note")]),
    "named tuple": (Types.NAMED_TUPLE(Named), [Named(1, "a"), Named(-1, "")]),
    "enum": (Types.ENUM(Colour), [Colour.RED, Colour.BLUE]),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), [Point(1, "a"), {1, 2}, [None, {"a": (1,)}], 1 + 2j]),
    "not declared": (None, [Point(1, "a"), {1, 2}, [None, {"a": (1,)}], 1, "a", b"a", 1.5, True, (), Colour.RED]),
}


@pytest.mark.parametrize("case", CASES)
def test_values_come_back_as_they_were(new_backend: NewBackend, case: str) -> None:
    type_info, values = CASES[case]
    declared = Declared(value=type_info)
    operator = Operator(new_backend, declared=declared)

    def check(found: Operator) -> None:
        for number, value in enumerate(values):
            states = found.at(number)
            assert states.value.value() == states.reducing.get() == value
            assert type(states.value.value()) is type(value)
        states = found.at("all")
        assert list(states.list.get()) == values
        assert [type(value) for value in states.list.get()] == list(map(type, values))
        entries: dict[Any, Any] = {"none": None, **dict(enumerate(values))}
        assert dict(states.map.items()) == entries
        assert states.map.get(0) == values[0]

    for number, value in enumerate(values):
        operator.at(number).value.update(value)
        operator.at(number).reducing.add(value)
        operator.at("all").map.put(number, value)
        operator.at("all").list.add(value)
    operator.at("all").map.put("none", None)
    check(operator)
    operator.commit()
    for _ in range(2):  # the second time from what the first has cached
        check(operator)
    for files in (operator.files, merged(operator.files, keep_deletes=False), operator.exported()):
        check(Operator(new_backend, 2, files, declared=declared))


def test_a_list_that_grew_over_many_epochs(new_backend: NewBackend) -> None:
    operator = Operator(new_backend)
    backend = operator.subtasks[0].backend
    for number in range(1100):
        operator.at("a").list.add(number)
        operator.at("a", (0, 5)).list.add(-number)
        backend.fold()
        backend.begin_epoch()
    assert list(operator.at("a").list.get()) == list(range(1100))
    for found in (operator, Operator(new_backend, files=operator.exported())):
        found.at("a").list.add("last")
        assert list(found.at("a").list.get()) == [*range(1100), "last"]
        found.at("a").list.clear()
        found.commit()
        assert found.at("a").seen() == NOTHING
        assert len(list(found.at("a", (0, 5)).list.get())) == 1100
