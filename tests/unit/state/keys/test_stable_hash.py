"""``stable_hash``: equal keys hash equally, in every process; what cannot be a key says so."""

from __future__ import annotations

import datetime as dt
import enum
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ids import id_of
from tidemill.common.types import Row
from tidemill.errors import InvalidKeyError
from tidemill.python_versions import StrEnum
from tidemill.state.keys.stable_hash import canonical_key, canonical_keys, stable_hash

NAN = float("nan")


class Color(enum.Enum):
    RED = 1


class Size(enum.IntEnum):
    BIG = 7


class Name(StrEnum):
    A = "a"


class Old(str, enum.Enum):  # the form from before StrEnum
    A = "a"


class Perm(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any


@dataclass(frozen=True)
class Labelled:
    x: int
    label: str = field(compare=False)
    notes: Any = field(default=None, hash=False)


@dataclass
class Mutable:
    x: int


@dataclass(frozen=True, eq=False)
class ByIdentity:
    x: int


@dataclass(frozen=True)
class OwnEq:
    x: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Plain:
    pass


class Text(str):
    __slots__ = ()


class Shouting(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.upper() == other.upper()

    def __hash__(self) -> int:
        return hash(self.upper())


# Durable: key groups in every state file follow from these numbers. They never change.
GOLDEN: list[tuple[Any, int]] = [
    (None, 13466104859223631402),
    (0, 5245164096912454114),
    (1, 10220066957757559607),
    (-1, 13742102448931794803),
    (2, 15194969818602665120),
    (12345, 11209959852149320603),
    (2**63, 6698031466583324589),
    (-(2**200), 8733649136070506241),
    (0.5, 5626289532583875828),
    (-1.5, 15773036411401242040),
    (float("inf"), 15361380268603833510),
    (float("nan"), 12090636675369798238),
    (Decimal("1.1"), 16057022326888214786),
    (Fraction(1, 3), 12920215293884621747),
    (1 + 2j, 4079248282877272037),
    ("", 2769765231187871697),
    ("a", 7252028411131977326),
    ("user-12345", 12766834758000374242),
    ("ключ 🗝", 15602021336646947651),
    ("\ud800", 4658836200923938257),
    ("x" * 1000, 124053949480902948),
    (b"", 3524117048313274108),
    (b"a", 8324157136294315297),
    (b"\x00\xff", 13731326458835412444),
    ((), 16081993775209942131),
    (("user-1", 7), 10272322323706186630),
    (((1, 2), (3, 4)), 6452492214301192800),
    (((1, 3), (2, 4)), 15949598415732276921),
    ((None, (True, "x", 2.5)), 11533016841297611438),
    (frozenset({1, "a"}), 5993993977626227966),
    (dt.date(2024, 2, 29), 17992376433052581445),
    (dt.datetime(2024, 2, 29, 12, 30, 1, 5), 14121806918350614581),  # noqa: DTZ001 - on purpose
    (dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc), 16832991387988617910),
    (dt.time(23, 59, 59, 999999), 17353060494734166194),
    (dt.timedelta(days=-1, microseconds=3), 6386494661438721053),
    (UUID("12345678-1234-5678-1234-567812345678"), 3731918092468826730),
    (Color.RED, 6592632115884617255),
    (Perm.READ | Perm.WRITE, 9578831145914897972),
    (Point(1, 2), 9605373278797359119),
    (Row(1, "a"), 3133812479794033643),
    (Row(name="x", age=3), 17201526794658102819),
]


@pytest.mark.parametrize(("key", "expected"), GOLDEN, ids=id_of)
def test_the_numbers_never_change(key: Any, expected: int) -> None:
    assert stable_hash(key) == expected


def test_another_process_with_another_hash_seed_gets_the_same() -> None:
    keys = ["a", b"b", ("user-1", 7), frozenset({"x", "y", "z", 1}), None, 2.5, UUID(int=5)]
    program = (
        "from tidemill.state.keys.stable_hash import stable_hash; from uuid import UUID; "
        f"print([stable_hash(key) for key in {keys!r}])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "4242")
    }
    assert outputs == {str([stable_hash(key) for key in keys])}


BERLIN = ZoneInfo("Europe/Berlin")

numbers = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.fractions(),
    st.decimals(allow_nan=False),
    st.complex_numbers(allow_nan=False),
)
atoms = st.one_of(numbers, st.none(), st.text(st.characters()), st.binary(), st.dates(), st.datetimes(), st.uuids())
keys = st.recursive(atoms, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


def test_equal_keys_of_different_types_hash_equally() -> None:
    summer = dt.datetime(2024, 7, 1, 14, tzinfo=BERLIN)
    same: list[list[Any]] = [
        [1, 1.0, True, Decimal(1), Decimal("1.00"), Fraction(1), 1 + 0j, np.int64(1), np.float32(1), np.bool_(True)],
        [0, 0.0, -0.0, False, Decimal("-0")],
        [2**70, float(2**70), Decimal(2**70)],
        [0.5, Decimal("0.5"), Fraction(1, 2), np.float64(0.5)],
        [float("inf"), Decimal("Infinity")],
        [7, Size.BIG],
        ["a", Name.A, Old.A, Text("a"), np.str_("a")],
        [(1, "a"), Pair(1, "a"), (True, Name.A), (Decimal(1), Old.A), Pair(np.int64(1), "a")],
        [(Size.BIG, (1,)), (7, (1.0,))],
        [
            summer,
            dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone.utc),
            dt.datetime(2024, 7, 1, 13, tzinfo=ZoneInfo("Europe/London")),
        ],
        [dt.time(12, tzinfo=dt.timezone.utc), dt.time(14, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
        [dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN), dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)],
        [dt.timedelta(days=1), dt.timedelta(hours=24)],
        [Point(1, "a"), Point(1.0, Name.A)],
        [Labelled(1, "x", []), Labelled(1, "y", [])],
        [Row(a=1, b=2), Row(b=2, a=1)],
        [Row(1, 2), Row(1.0, True + 1)],
        [frozenset({1, "a"}), frozenset({"a", 1.0})],
    ]
    for group in same:
        assert all(key == group[0] for key in group), group
        assert len({stable_hash(key) for key in group}) == 1, group


@settings(deadline=None)
@given(numbers, numbers)
def test_equal_numbers_hash_equally(left: Any, right: Any) -> None:
    for other in (right, *conversions(left)):
        if left == other:
            assert stable_hash(left) == stable_hash(other)
            assert stable_hash((left, "x")) == stable_hash(Pair(other, "x"))


def conversions(value: Any) -> list[Any]:
    made: list[Any] = []
    kinds: tuple[Callable[[Any], Any], ...] = (int, float, Decimal, Fraction, complex)
    for kind in kinds:
        try:
            made.append(kind(value))
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            continue
    return made


@settings(deadline=None)
@given(keys)
def test_every_hash_has_64_bits_and_is_repeatable(key: Any) -> None:
    assert 0 <= stable_hash(key) < 2**64
    assert stable_hash(key) == stable_hash(canonical_key(key))


def test_sequential_and_structured_keys_spread_over_groups() -> None:
    families: list[list[Any]] = [
        list(range(12800)),
        [i << 32 for i in range(12800)],
        [i * 0.5 for i in range(12800)],
        [f"user-{i}" for i in range(12800)],
        [("user", i) for i in range(12800)],
        [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(minutes=i) for i in range(12800)],
        [UUID(int=i) for i in range(12800)],
    ]
    for family in families:
        for groups in (128, 100):
            counts = Counter(stable_hash(key) % groups for key in family)
            expected = len(family) / groups
            chi = sum((counts[g] - expected) ** 2 / expected for g in range(groups)) / (groups - 1)
            assert chi < 1.6, (family[1], groups, chi)
        assert len({stable_hash(key) for key in family}) == len(family)


def test_nested_tuples_do_not_collide() -> None:
    keys = [((a, b), (c, d)) for a in range(9) for b in range(9) for c in range(9) for d in range(9)]
    keys += [(a, (b, c), d) for a, (b, c), d in [(k[0][0], (k[0][1], k[1][0]), k[1][1]) for k in keys]]  # type: ignore[misc]
    assert len({stable_hash(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ([1], "list.*tuple"),
        ({"a": 1}, "dict.*frozen dataclass"),
        ({1}, "set.*frozenset"),
        (bytearray(b"a"), "bytearray.*bytes"),
        (memoryview(b"a"), "memoryview.*bytes"),
        (Mutable(1), "Mutable.*frozen=True"),
        (ByIdentity(1), "ByIdentity.*compare by its fields"),
        (OwnEq(1), "OwnEq.*compare by its fields"),
        (Plain(), "Plain.*address.*frozen dataclass"),
        (Shouting("a"), "Shouting.*__eq__"),
        (len, "builtin_function.*in every process"),
        (np.array([1]), "ndarray.*tuple"),
        (np.datetime64("2024-01-01"), r"datetime64.*\.item"),
        (("a", [1]), "list.*tuple"),
        (Point(1, [2]), "list.*tuple"),
        (Point(NAN, 1), "NaN.*Point"),
        (Row(NAN), "NaN.*Row"),
        (frozenset({(1, NAN)}), "NaN.*frozenset"),
        (complex(1, NAN), "complex NaN"),
        (Decimal("sNaN"), "signaling"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_a_key_says_what_to_use_instead(key: Any, says: str) -> None:
    for _ in range(2):  # also when the type has been seen before
        with pytest.raises(InvalidKeyError, match=says):
            stable_hash(key)


def test_nan_keys_are_found_again() -> None:
    one, two = float("nan"), float("nan")
    state = {canonical_key(one): 1, canonical_key(("a", (one,))): 2, canonical_key(Decimal("NaN")): 3}
    assert state[canonical_key(two)] == 1
    assert state[canonical_key(("a", (two,)))] == 2
    assert state[canonical_key(Decimal("-NaN"))] == 3
    assert stable_hash(one) == stable_hash(two) == stable_hash(Decimal("NaN"))
    pair = canonical_key(Pair(one, 1))
    assert type(pair) is Pair
    assert pair == canonical_key(Pair(two, 1))


@settings(deadline=None)
@given(keys)
def test_canonical_keys_are_the_keys_themselves(key: Any) -> None:
    assert canonical_key(key) is key


def test_a_batch_is_returned_as_it_is_if_nothing_changes() -> None:
    batch: list[Any] = [1, "a", None]
    assert canonical_keys(batch) is batch
    assert canonical_keys([np.int64(3), ("a", np.float64(0.5))]) == [3, ("a", 0.5)]
    assert [type(key) for key in canonical_keys([np.int64(3), np.str_("a")])] == [int, str]
