"""Values as bytes: compact by type, exact for what does not fit the type."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.types import Row, RowKind
from tidemill.state.codecs.ttl import Stamped, StampedTypeInfo
from tidemill.state.rocksdb.value_encoding import entry_codec, with_original, without_original


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    name: str


@dataclasses.dataclass
class Account:
    owner: str
    amount: float
    tags: list[str]


LONG, STRING = Types.LONG(), Types.STRING()

#: A type, a value of it, and the most bytes that the value may take.
CASES: list[tuple[TypeInformation | None, Any, int]] = [
    (LONG, 5, 9),
    (LONG, -(2**63), 9),
    (Types.INT(), 7, 9),
    (Types.DOUBLE(), 1.5, 9),
    (Types.BOOLEAN(), True, 2),
    (STRING, "", 1),
    (STRING, "abc", 4),
    (Types.PICKLED_BYTE_ARRAY(), {"any": [1, {2}]}, 40),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0\1", 4),
    (Types.TUPLE([LONG, STRING]), (1, "a"), 14),
    (Types.TUPLE([LONG, STRING]), (None, "a"), 6),
    (Types.LIST(LONG), [1, 2], 24),
    (Types.MAP(STRING, LONG), {"a": 1, "b": None}, 20),
    (Types.LIST(Types.TUPLE([STRING, Types.DOUBLE()])), [("a", 0.5), None], 20),
    (Types.ROW([LONG, STRING]), Row(1, "a"), 20),
    (Types.ROW_NAMED(["n", "s"], [LONG, STRING]), Row(n=1, s="a"), 20),
    (Types.ROW([LONG]), Row.of_kind(RowKind.DELETE, 1), 20),
    (None, 2**100, 30),
    (None, ["a", None], 30),
]


@pytest.mark.parametrize(("type_info", "value", "most"), CASES, ids=str)
def test_round_trip_and_size(type_info: TypeInformation | None, value: Any, most: int) -> None:
    codec = entry_codec(type_info)
    data = codec.dumps(value)
    assert codec.loads(data) == value
    assert type(codec.loads(data)) is type(value)
    assert len(data) <= most


def test_classes_take_only_their_fields() -> None:
    account = Account("ann", 1.5, ["x"])
    types: list[tuple[Any, TypeInformation]] = [
        (account, Types.DATACLASS(Account)),
        (Point(1, "p"), Types.NAMED_TUPLE(Point)),
        (Color.RED, Types.ENUM(Color)),
    ]
    for value, type_info in types:
        codec = entry_codec(type_info)
        data = codec.dumps(value)
        assert codec.loads(data) == value
        assert type(value).__name__.encode() not in data


def test_a_value_with_its_time() -> None:
    codec = entry_codec(StampedTypeInfo(LONG))
    assert codec.loads(codec.dumps(Stamped(5, 99))) == Stamped(5, 99)
    assert len(codec.dumps(Stamped(5, 99))) <= 20


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (LONG, None),
        (LONG, 2**70),
        (LONG, "text"),
        (Types.DOUBLE(), None),
        (STRING, None),
        (STRING, "\ud800"),
        (STRING, 5),
        (Types.TUPLE([LONG, STRING]), None),
        (Types.TUPLE([LONG, STRING]), (1, 2, 3)),
        (Types.TUPLE([LONG, STRING]), [1, "a"]),
        (Types.TUPLE([LONG, STRING]), Point(1, "a")),
        (Types.LIST(LONG), [1, "a"]),
        (Types.ROW([LONG]), Row(n=1)),
        (Types.BOOLEAN(), 1),
    ],
    ids=str,
)
def test_what_does_not_fit_its_type_comes_back_all_the_same(type_info: TypeInformation, value: Any) -> None:
    codec = entry_codec(type_info)
    assert codec.loads(codec.dumps(value)) == value
    assert type(codec.loads(codec.dumps(value))) is type(value)


def test_mutable_values_are_new_objects() -> None:
    codec = entry_codec(Types.LIST(LONG))
    data = codec.dumps([1])
    assert codec.loads(data) is not codec.loads(data)


@settings(max_examples=examples(100), derandomize=True)
@given(st.binary(min_size=1, max_size=300), st.sampled_from([LONG, STRING, None]), st.none() | st.just(5))
def test_an_entry_carries_the_original_of_its_key(
    original: bytes, type_info: TypeInformation | None, value: Any
) -> None:
    codec = entry_codec(type_info)
    data = codec.dumps(value)
    assert codec.loads(with_original(data, original)) == value
    assert without_original(with_original(data, original)) == (original, data)
    assert without_original(data) == (b"", data)
