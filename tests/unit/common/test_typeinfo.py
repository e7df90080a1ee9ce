"""Type information: what is a value of which type, alone and in batches, and the JSON form."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from array import array
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common import Instant, Row, TypeInformation, Types
from tidemill.common.typeinfo import BasicTypeInfo, RowTypeInfo
from tidemill.errors import SerializationError, TypeMismatchError


class Color(Enum):
    RED = 1
    BLUE = 2


class Shade(Enum):
    RED = 1


@dataclass
class Person:
    name: str
    age: int
    tags: list[str]


@dataclass
class Employee(Person):
    wage: Decimal


class Point(NamedTuple):
    x: int
    y: float


class Plain:
    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"Plain({self.__dict__})"


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
PERSON = Types.DATACLASS(Person)

GOOD: list[tuple[TypeInformation, list[Any]]] = [
    (Types.STRING(), ["a", "", None]),
    (Types.BYTE(), [-128, 127, True]),
    (Types.BOOLEAN(), [True, False]),
    (Types.SHORT(), [-(1 << 15), (1 << 15) - 1]),
    (Types.INT(), [-(1 << 31), (1 << 31) - 1]),
    (Types.LONG(), [-(1 << 63), (1 << 63) - 1]),
    (Types.FLOAT(), [1.5, 2]),
    (Types.DOUBLE(), [1.5, 2, float("nan")]),
    (Types.CHAR(), ["a"]),
    (Types.BIG_INT(), [1 << 100, None]),
    (Types.BIG_DEC(), [Decimal("1.5"), None]),
    (Types.INSTANT(), [Instant(1, 2), None]),
    (Types.SQL_DATE(), [dt.date(2020, 1, 1), None]),
    (Types.SQL_TIME(), [dt.time(1, 2), None]),
    (Types.SQL_TIMESTAMP(), [dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), None]),
    (Types.PICKLED_BYTE_ARRAY(), [Plain(), None, 5]),
    (Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a"), Row(None, None), (1, "a"), [1, "a"], Row(a=1, b="x")]),
    (
        NAMED,
        [
            Row(id=1, tags=["a"]),
            Row(tags=[], id=1),
            Row(1, ["a"]),
            Row(id=None, tags=None),
            {"id": 1},
            Plain(id=1, tags=["a"]),
            (1, []),
        ],
    ),
    (PAIR, [("a", 1), ["a", 1], Row("a", 1), (None, 1)]),
    (Types.TUPLE([]), [()]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab", bytearray(b"c"), [1, 2], array("b", [1])]),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [[1.5], (2,), array("d", [1])]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None], ()]),
    (Types.OBJECT_ARRAY(PAIR), [[("a", 1), None]]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {}, {"a": None}]),
    (Types.LIST(Types.INT()), [[1, 2], [], (1,)]),
    (Types.OPTIONAL(Types.INT()), [None, 5]),
    (PERSON, [Person("a", 1, ["x"]), Employee("a", 1, [], Decimal(1))]),
    (Types.NAMED_TUPLE(Point), [Point(1, 2.0)]),
    (Types.ENUM(Color), [Color.RED]),
]
ALL_TYPES = [type_info for type_info, _ in GOOD]
by_repr = pytest.mark.parametrize("type_info", ALL_TYPES, ids=repr)

BAD: list[tuple[TypeInformation, Any, str]] = [
    (Types.STRING(), 1, "value: expected String, got int 1."),
    (Types.BOOLEAN(), 1, "value: expected Boolean, got int 1."),
    (Types.INT(), None, "value: expected Integer, got None."),
    (Types.INT(), "1", "value: expected Integer, got str '1'."),
    (Types.INT(), 1.0, "value: expected Integer, got float 1.0."),
    (Types.BYTE(), 128, "it must be between -128 and 127; declare a wider type"),
    (Types.LONG(), 1 << 63, "declare Types.BIG_INT()"),
    (Types.DOUBLE(), "x", "value: expected Double, got str 'x'."),
    (Types.CHAR(), "ab", "it must be one character"),
    (Types.BIG_DEC(), 1.5, "expected BigDecimal, got float"),
    (Types.INSTANT(), 5, "expected Instant, got int"),
    (Types.SQL_DATE(), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), "expected DateTypeInfo, got datetime"),
    (Types.SQL_TIMESTAMP(), dt.date(2020, 1, 1), "expected TimestampTypeInfo, got date"),
    (PAIR, ("a", "b"), "value[1]: expected Integer, got str 'b'."),
    (PAIR, ("a",), "it has 1 fields, not 2"),
    (PAIR, None, "value: expected TupleTypeInfo(String, Integer), got None."),
    (PAIR, "ab", "got str 'ab'"),
    (NAMED, Row(id=1, tags=["a", 2]), "value.tags[1]: expected String, got int 2."),
    (NAMED, Row(id=1), "value: expected RowTypeInfo(id: Long, tags: ListTypeInfo<String>), got Row"),
    (NAMED, Row(1), "it has 1 fields, not 2"),
    (NAMED, {"id": "x"}, "value.id: expected Long, got str 'x'."),
    (NAMED, 5, "got int 5"),
    (Types.ROW([Types.INT()]), Row("a"), "value.f0: expected Integer"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [None], "value[0]: expected Integer, got None."),
    (Types.PRIMITIVE_ARRAY(Types.INT()), b"ab", "got bytes"),
    (Types.BASIC_ARRAY(Types.INT()), ["a"], "value[0]: expected Integer"),
    (Types.LIST(Types.LIST(Types.INT())), [[1], [2, "x"]], "value[1][1]: expected Integer, got str 'x'."),
    (Types.LIST(Types.INT()), [None], "value[0]: expected Integer, got None."),
    (Types.LIST(Types.INT()), {1}, "got set {1}"),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": "b"}, "value['a']: expected Integer, got str 'b'."),
    (Types.MAP(Types.STRING(), Types.INT()), {1: 1}, "value.key(1): expected String, got int 1."),
    (Types.MAP(Types.STRING(), Types.INT()), [], "expected MapTypeInfo<String, Integer>, got list []"),
    (Types.OPTIONAL(Types.INT()), "a", "expected Integer"),
    (PERSON, Person("a", "1", []), "value.age: expected Long, got str '1'."),  # type: ignore[arg-type]
    (PERSON, Person("a", 1, [2]), "value.tags[0]: expected String, got int 2."),  # type: ignore[list-item]
    (PERSON, ("a", 1), "expected DataclassTypeInfo<Person>, got tuple"),
    (Types.NAMED_TUPLE(Point), (1, 2.0), "expected NamedTupleTypeInfo<Point>, got tuple"),
    (Types.NAMED_TUPLE(Point), Point(1, "y"), "value.y: expected Double"),  # type: ignore[arg-type]
    (Types.ENUM(Color), Shade.RED, "expected EnumTypeInfo<Color>, got Shade"),
    (Types.ENUM(Color), 1, "got int 1"),
    (Types.STRING(), [0] * 1000, "..."),
]


@pytest.mark.parametrize(("type_info", "values"), GOOD, ids=repr)
def test_values_of_the_type(type_info: TypeInformation, values: list[Any]) -> None:
    for value in values:
        type_info.validate(value)
        type_info.validator()([value])
    type_info.validator()(values)
    type_info.validator()(values * 100)
    type_info.validator()([])


@pytest.mark.parametrize(("type_info", "value", "words"), BAD, ids=repr)
def test_values_of_another_type(type_info: TypeInformation, value: Any, words: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        type_info.validate(value)
    assert words in str(caught.value)
    good = next((values for other, values in GOOD if other == type_info), [])
    with pytest.raises(TypeMismatchError) as in_batch:
        type_info.validator()([*good, value, *good])
    assert str(in_batch.value) == str(caught.value), "a batch is refused for the same reason"


def test_the_path_continues_from_its_given_start() -> None:
    with pytest.raises(TypeMismatchError, match=r"value\.state\[1\]: expected Integer"):
        PAIR.validate(("a", None), ".state")


def test_an_attribute_that_is_not_set_is_a_mismatch() -> None:
    person = Person("a", 1, [])
    del person.age
    with pytest.raises(TypeMismatchError, match="its field 'age' is not set"):
        PERSON.validate(person)
    with pytest.raises(TypeMismatchError, match="its field 'age' is not set"):
        PERSON.validator()([person])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
        | st.builds(Row, inner, inner)
    ),
    max_leaves=6,
)


@given(st.lists(ANYTHING, max_size=5), st.sampled_from(ALL_TYPES))
def test_a_batch_is_judged_as_its_values_are(values: list[Any], type_info: TypeInformation) -> None:
    def refused(check: Any, argument: Any) -> bool:
        try:
            check(argument)
        except TypeMismatchError:
            return True
        return False

    one_by_one = any(refused(type_info.validate, value) for value in values)
    assert refused(type_info.validator(), values) == one_by_one


@by_repr
def test_json_and_pickle_give_an_equal_type_back(type_info: TypeInformation) -> None:
    text = json.dumps(type_info.to_json())
    assert json.loads(text)["version"] == 1
    for other in (TypeInformation.from_json(json.loads(text)), pickle.loads(pickle.dumps(type_info))):
        assert other == type_info
        assert hash(other) == hash(type_info)
        assert repr(other) == repr(type_info)


def test_types_differ_from_each_other() -> None:
    assert len(set(ALL_TYPES)) == len(ALL_TYPES)
    assert Types.ROW_NAMED(["a"], [Types.INT()]) != Types.ROW_NAMED(["b"], [Types.INT()])
    assert Types.ROW_NAMED(["f0"], [Types.INT()]) == Types.ROW([Types.INT()])
    assert Types.LIST(Types.INT()) != Types.OBJECT_ARRAY(Types.INT())
    assert Types.INT() != "Integer"


def test_the_json_form_is_stable() -> None:
    assert Types.ROW_NAMED(["a"], [Types.LIST(Types.INT())]).to_json() == {
        "version": 1,
        "kind": "row",
        "types": [{"kind": "list", "element": {"kind": "basic", "name": "INT"}}],
        "names": ["a"],
    }
    described = Types.ENUM(Color).to_json()
    assert described["class"] == f"{Color.__module__}:Color"
    assert described["members"] == ["RED", "BLUE"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"version": 2, "kind": "basic", "name": "INT"}, "version 2"),
        ({"kind": "basic", "name": "INT"}, "version None"),
        ({"version": 1, "kind": "nope"}, "'nope'"),
        ({"version": 1, "kind": "enum", "class": "no.such.module:X"}, "no.such.module:X"),
        ({"version": 1, "kind": "enum", "class": "enum:NoSuchClass"}, "moved or renamed"),
        ({"version": 1, "kind": "enum", "class": "enum:auto.__doc__"}, "not a class"),
    ],
)
def test_descriptions_that_cannot_be_read(data: dict[str, Any], words: str) -> None:
    with pytest.raises(SerializationError) as caught:
        TypeInformation.from_json(data)
    assert words in str(caught.value)


def test_a_class_inside_a_function_can_be_described_but_not_found_again() -> None:
    class Local(Enum):
        A = 1

    with pytest.raises(SerializationError, match="defined inside a function"):
        TypeInformation.from_json(Types.ENUM(Local).to_json())


def test_text_forms_are_pyflinks() -> None:
    assert repr(Types.LONG()) == "Long"
    assert repr(Types.ROW([Types.INT(), Types.STRING()])) == "RowTypeInfo(Integer, String)"
    assert repr(NAMED) == "RowTypeInfo(id: Long, tags: ListTypeInfo<String>)"
    assert repr(Types.PRIMITIVE_ARRAY(Types.BYTE())) == "PrimitiveArrayTypeInfo<Byte>"
    assert repr(Types.MAP(Types.STRING(), Types.BOOLEAN())) == "MapTypeInfo<String, Boolean>"
    assert repr(Types.SQL_DATE()) == "DateTypeInfo"
    assert repr(Types.PICKLED_BYTE_ARRAY()) == "PickledByteArrayTypeInfo"


def test_fields_of_a_row_type() -> None:
    assert NAMED.get_field_names() == ["id", "tags"]
    assert NAMED.get_field_index("tags") == 1
    assert NAMED.get_field_types()[0] == Types.LONG()
    unnamed = Types.ROW([Types.INT(), Types.INT()])
    assert unnamed.get_field_names() == ["f0", "f1"]
    assert unnamed.get_field_index("f0") == -1
    assert PAIR.get_field_types() == [Types.STRING(), Types.INT()]
    assert PERSON.get_field_names() == ["name", "age", "tags"]


def test_types_that_cannot_be() -> None:
    with pytest.raises(TypeMismatchError, match="1 field names for 2 field types"):
        RowTypeInfo([Types.INT(), Types.INT()], ["a"])
    with pytest.raises(TypeMismatchError, match="must differ"):
        RowTypeInfo([Types.INT(), Types.INT()], ["a", "a"])
    with pytest.raises(TypeMismatchError, match="element type of a primitive array"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(TypeMismatchError, match="element type of a basic array"):
        Types.BASIC_ARRAY(PAIR)
    with pytest.raises(TypeMismatchError, match="needs a dataclass"):
        Types.DATACLASS(int)
    with pytest.raises(TypeMismatchError, match="needs a NamedTuple"):
        Types.NAMED_TUPLE(tuple)
    with pytest.raises(TypeMismatchError, match="needs an Enum"):
        Types.ENUM(int)  # type: ignore[arg-type]


def test_optional_of_a_type_that_has_none_already_is_that_type() -> None:
    assert Types.OPTIONAL(Types.STRING()) == Types.STRING()


def test_pyflinks_other_way_to_basic_types() -> None:
    assert BasicTypeInfo.BIG_DEC_TYPE_INFO() == Types.BIG_DEC()
    assert BasicTypeInfo.STRING_TYPE_INFO() == Types.STRING()
