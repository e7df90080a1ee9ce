"""Records of a declared type come in one form, however the program gave them: readers can rely on it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import pytest

from tidemill.common import Row, RowKind, TypeInformation, Types
from tidemill.errors import TypeMismatchError

PAIR = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
NAMED = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()])
UNNAMED = Types.ROW([Types.STRING(), Types.LONG()])
NESTED = Types.ROW_NAMED(["who", "parts"], [NAMED, Types.LIST(PAIR)])


class Level(IntEnum):
    HIGH = 2


class Colour(str, Enum):  # whose hash and text are not those of a string
    RED = "r"


@dataclass
class Order:
    id: str
    n: int


@pytest.mark.parametrize(
    ("type_info", "given", "found"),
    [
        (Types.DOUBLE(), 3, 3.0),
        (Types.FLOAT(), True, 1.0),
        (Types.INT(), True, 1),
        (Types.LONG(), Level.HIGH, 2),
        (Types.STRING(), Colour.RED, "r"),
        (Types.CHAR(), Colour.RED, "r"),
        (NAMED, Row("a", 1), Row(id="a", n=1)),
        (NAMED, Row("a", True), Row(id="a", n=1)),
        (NAMED, Row(id=Colour.RED, n=None), Row(id="r", n=None)),
        (NAMED, Row(n=1, id="a"), Row(id="a", n=1)),
        (NAMED, ("a", 1), Row(id="a", n=1)),
        (NAMED, {"id": "a"}, Row(id="a", n=None)),
        (NAMED, Order("a", 1), Row(id="a", n=1)),
        (UNNAMED, Row("a", 1), Row(f0="a", f1=1)),
        (UNNAMED, ["a", 1], Row(f0="a", f1=1)),
        (UNNAMED, Row(own="a", names=1), Row(own="a", names=1)),
        (UNNAMED, Row("own", "names", "more")("a", True), Row(own="a", names=1)),
        (PAIR, ["a", 1], ("a", 1.0)),
        (PAIR, Row("a", 1.5), ("a", 1.5)),
        (NESTED, Row(("a", 1), (["b", 2],)), Row(who=Row(id="a", n=1), parts=[("b", 2.0)])),
        (NESTED, Row(None, None), Row(who=None, parts=None)),
        (Types.LIST(Types.DOUBLE()), (1, 2.5), [1.0, 2.5]),
        (Types.OBJECT_ARRAY(NAMED), (("a", 1), None), [Row(id="a", n=1), None]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), (1, 2), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), array("d", [1.5]), array("d", [1.5])),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1, "b": None}, {"a": 1.0, "b": None}),
        (Types.MAP(Types.BIG_INT(), Types.DOUBLE()), {None: 1}, {None: 1.0}),
        (Types.MAP(Types.OPTIONAL(Types.LONG()), Types.DOUBLE()), {None: 1, True: 2}, {None: 1.0, 1: 2.0}),
        (Types.MAP(NAMED, Types.LONG()), {("a", 1): True}, {Row(id="a", n=1): 1}),
        (Types.MAP(Types.LIST(Types.LONG()), Types.DOUBLE()), {(1, 2): 3}, {(1, 2): 3.0}),
        (Types.PICKLED_BYTE_ARRAY(), ["as", "it", "is"], ["as", "it", "is"]),
    ],
)
def test_a_value_and_what_readers_find(type_info: TypeInformation, given: Any, found: Any) -> None:
    (alone,) = type_info.shaper()([given])
    assert (repr(alone), type(alone)) == (repr(found), type(found))
    assert type_info.shaper()([found, given]) == [found, found]
    # What has been shaped is recognised by the fast check, and handed on as it is.
    again = [found]
    assert type_info.shaper()(again) is again or not type_info.fast_check()(again)
    assert repr(type_info.shape(found)) == repr(found)


def test_a_row_that_is_given_names_is_a_new_one_of_the_same_kind() -> None:
    given = Row.of_kind(RowKind.DELETE, "a", 1)
    (named,) = NAMED.shaper()([given])
    assert named.get_row_kind() is RowKind.DELETE
    assert (given.get_field_names(), named.get_field_names()) == (None, ("id", "n"))
    named[1] = 7
    assert given[1] == 1


def test_rows_are_shaped_together_as_one_by_one() -> None:
    """Whatever stands beside a row in its batch, readers find the same."""
    alike = [Row("a", 1), Row.of_kind(RowKind.DELETE, None, True), Row(Colour.RED, None)]
    odd: list[Any] = [Row(n=4, id="d"), ("e", 5), Row(id="f", n=6)]
    for batch in (alike, odd, alike + odd, [Row(id="f", n=True), Row(id=None, n=2)]):
        assert NAMED.shaper()(batch) == [NAMED.shape(row) for row in batch]
        assert repr(NAMED.shaper()(batch)) == repr([NAMED.shape(row) for row in batch])


def test_a_row_without_fields_stays_one() -> None:
    assert [len(row) for row in Types.ROW([]).shaper()([Row(), ()])] == [0, 0]


def test_an_object_of_the_programs_class_is_handed_on_as_it_was_made() -> None:
    made = [Order("a", 1), Order("b", True)]
    for found, given in zip(Types.DATACLASS(Order).shaper()(made), made, strict=True):
        assert found is given


def test_none_stays_none_where_the_type_has_it() -> None:
    assert Types.STRING().shaper()(["a", None]) == ["a", None]


@pytest.mark.parametrize(
    ("type_info", "value", "words"),
    [
        (NAMED, Row(id="a", other=1), "expected RowTypeInfo"),
        (NAMED, Row("id", "n")("a"), "expected RowTypeInfo"),
        (NAMED, Row("a", "b"), r"value\.n: expected Long"),
        (UNNAMED, Row("a"), "it has 1 fields, not 2"),
        (PAIR, ("a", "b"), r"value\[1\]: expected Double"),
        (Types.DOUBLE(), 10**400, "too large for a floating point number"),
    ],
)
def test_what_is_not_of_the_type_is_refused(type_info: TypeInformation, value: Any, words: str) -> None:
    with pytest.raises(TypeMismatchError, match=words):
        type_info.shaper()([value])
