"""Keys as bytes: equal where Python says equal, different otherwise, and back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ids import id_of
from tests.thorough import examples
from tidemill.common.types import Row, RowKind
from tidemill.errors import InvalidKeyError
from tidemill.python_versions import StrEnum
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.rocksdb.key_encoding import decode_key, encode_key, is_exact
from tidemill.state.rocksdb.rows import original_of, remember_original


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Mood(StrEnum):
    GOOD = "good"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    floor: int
    seen: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True)
class Other:
    name: str
    floor: int


class Odd:
    """A user key of a map that has no stable hash."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and self.number == other.number

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"Odd({self.number})"


UTC = dt.timezone.utc

EQUAL: list[list[Any]] = [
    [1, 1.0, True, Decimal(1), Decimal("1.00"), Fraction(1), 1 + 0j, Level.LOW],
    [0, 0.0, -0.0, False, Decimal("-0")],
    [1.5, Decimal("1.5"), Fraction(3, 2), 1.5 + 0j],
    [0.1],
    [Decimal("0.1"), Fraction(1, 10)],
    [2**64, float(2**64), Decimal(2**64)],
    [-(2**64), float(-(2**64))],
    [2**63 - 1],
    [2**63],
    [-(2**63)],
    [-(2**63) - 1],
    [math.inf, Decimal("Infinity")],
    [-math.inf],
    [float("nan"), -float("nan")],
    [Decimal("nan")],
    [1e300, int(1e300)],
    [5e-324],
    [Fraction(1, 2**2000)],
    [1 + 2j],
    [None],
    [""],
    ["good", Mood.GOOD],
    ["a"],
    [b"a"],
    ["a\0b"],
    ["a\0"],
    ["a\0\xff"],
    ["\ud800"],
    [b""],
    [b"\0"],
    [b"\0\xff"],
    [()],
    [(1, "good"), (1.0, "good"), (True, Mood.GOOD)],
    [(1, 2), Point(1, 2)],
    [((1,), 2)],
    [(1, (2,))],
    [("a",)],
    [(None,)],
    [frozenset((1, 2)), frozenset((2.0, 1))],
    [frozenset()],
    [dt.date(2024, 1, 2)],
    [dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 2, fold=1)],  # noqa: DTZ001
    [
        dt.datetime(2024, 1, 2, 12, tzinfo=UTC),
        dt.datetime(2024, 1, 2, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.datetime(2024, 1, 2, 13, tzinfo=ZoneInfo("Europe/Berlin")),
    ],
    [dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4, fold=1)],
    [dt.time(1, 2, tzinfo=UTC)],
    [dt.timedelta(1), dt.timedelta(hours=24)],
    [dt.timedelta.max],
    [UUID(int=7)],
    [Color.RED],
    [Color.BLUE],
    [Access.READ],
    [Access.READ | Access.WRITE],
    [Place("a", 1), Place("a", 1, seen=5)],
    [Other("a", 1)],
    [Row(1, "a")],
    [Row(a=1, b=2), Row(b=2, a=1)],
    [Row.of_kind(RowKind.DELETE, 1, "a")],
    [Odd(1), Odd(1)],
    [Odd(2)],
]


@pytest.mark.parametrize("keys", EQUAL, ids=lambda keys: id_of(keys[0]))
def test_equal_keys_have_equal_bytes(keys: list[Any]) -> None:
    assert len({encode_key(key) for key in keys}) == 1


def test_different_keys_have_different_bytes_and_none_begins_with_another() -> None:
    encoded = [encode_key(keys[0]) for keys in EQUAL]
    for i, one in enumerate(encoded):
        for j, other in enumerate(encoded):
            assert i == j or not other.startswith(one), (EQUAL[i], EQUAL[j])


@pytest.mark.parametrize("key", [key for keys in EQUAL for key in keys], ids=id_of)
def test_a_key_comes_back_from_its_bytes_or_from_its_original(key: Any) -> None:
    data = remember_original(b"\0", key)
    encoded = encode_key(key)
    decoded, end = decode_key(encoded + b"more")
    assert end == len(encoded)
    original = original_of(data)
    found = decoded if original is None else original[0]
    expected = canonical_key(key)
    assert type(found) is type(expected)
    if expected != expected:
        assert repr(found) == repr(expected)
    else:
        assert found == expected
        assert getattr(found, "fold", 0) == getattr(expected, "fold", 0)


def test_nan_comes_back_as_the_object_that_a_dict_finds() -> None:
    key = canonical_key(("a", float("nan")))
    decoded, _ = decode_key(encode_key(key))
    assert {key: 1}[decoded] == 1


texts = st.text() | st.text("a\0\1\xff", max_size=4)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False, min_value=-(10**30), max_value=10**30)
    | st.fractions()
)
keys = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@settings(max_examples=examples(300), derandomize=True)
@given(keys, keys)
def test_bytes_are_equal_exactly_where_keys_are(one: Any, other: Any) -> None:
    one, other = canonical_key(one), canonical_key(other)
    same = {one: 0}.get(other) == 0
    assert (encode_key(one) == encode_key(other)) == same
    if not same:
        assert not encode_key(one).startswith(encode_key(other))


@settings(max_examples=examples(300), derandomize=True)
@given(keys)
def test_exact_keys_come_back_exactly(key: Any) -> None:
    key = canonical_key(key)
    decoded, end = decode_key(encode_key(key))
    assert end == len(encode_key(key))
    if is_exact(key):
        assert repr(decoded) == repr(key)


@settings(max_examples=examples(200), derandomize=True)
@given(st.one_of(*(st.lists(one) for one in (st.integers(), texts, st.binary(), st.tuples(st.integers(), texts)))))
def test_bytes_sort_as_the_keys_do(values: list[Any]) -> None:
    # Python compares texts by code point, and so does UTF-8.
    assert sorted(values, key=encode_key) == sorted(values)


def test_a_decimal_that_would_need_a_gigabyte_is_refused() -> None:
    with pytest.raises(InvalidKeyError, match=r"Decimal of 10\*\*999999999"):
        encode_key(Decimal("1e999999999"))
