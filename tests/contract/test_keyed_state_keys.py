"""Keys of every supported kind, key groups, and another parallelism."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.contract.keyed_state import (
    KINDS,
    MAX_PARALLELISM,
    NOTHING,
    Colour,
    Declared,
    Level,
    NewBackend,
    Operator,
    Point,
    merged,
)
from tests.thorough import THOROUGH
from tidemill.common import Row, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.key_groups import KeyGroupRange, Subtask, key_group_of


class Named(NamedTuple):
    x: int
    y: str


DAY = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)  # noqa: DTZ001 - a key may be without a zone

#: All different, also where they look alike.
KEYS: list[Any] = [
    0, 1, -1, 2**31, -(2**63), 2**63, 2**100, -(2**100), 0.5, -0.5, 1e300, math.inf, -math.inf, math.nan,
    "", "a", "b", "ab", "1", "\0", "a\0", "a\0b", "ä", "\U0001f600", b"", b"a", b"ab", b"\0", b"\xff", b"a\0",
    None, (), (1,), ("a",), ("a", "b"), ("ab", ""), ("", "ab"), (None,), ("a", None), (("a",), "b"), ("a", ("b",)),
    (1, (2, (3,))), (math.nan, 1), Colour.RED, Colour.BLUE, Level.LOW, Level.HIGH, Point(1, "a"), Point(1, "b"),
    Decimal("1.5"), Decimal("-0.01"), Fraction(1, 3), UUID(int=1), UUID(int=2), DAY.date(), DAY, DAY.time(),
    DAY.replace(tzinfo=dt.timezone.utc), dt.timedelta(days=1, microseconds=1), frozenset({1, 2}), frozenset(),
    Named(3, "x"), Row(1, "r"),
]  # fmt: skip

#: Each line is one key, as Python's ``==`` has it.
EQUAL_KEYS: list[list[Any]] = [
    [1, 1.0, True, Decimal(1), Fraction(1)],
    [0, 0.0, -0.0, False, Decimal(0)],
    [math.nan, float("nan"), -math.nan],
    [(1, "a"), (1.0, "a"), (True, "a"), Named(1, "a")],
    [10, Level.LOW, 10.0],
    [2**70, float(2**70)],
    [(math.nan, 1), (float("nan"), True)],
    [
        DAY.replace(tzinfo=dt.timezone.utc),
        DAY.replace(tzinfo=dt.timezone.utc).astimezone(dt.timezone(dt.timedelta(hours=2))),
    ],
]


def test_keys_of_all_kinds_are_kept_apart(new_backend: NewBackend) -> None:
    operator = Operator(new_backend)
    for number, key in enumerate(KEYS):
        operator.at(key).fill(number)
    operator.commit()
    for again in (operator, Operator(new_backend, 3, operator.files), Operator(new_backend, 2, operator.exported())):
        for number, key in enumerate(KEYS):
            assert again.at(key).seen()["list"] == [number], key
            assert again.at(key).seen()["value"] == number, key
        for kind in KINDS:
            assert len(again.keys(kind)) == len(KEYS)


def test_keys_come_back_as_they_were(new_backend: NewBackend) -> None:
    operator = Operator(new_backend)
    for key in KEYS:
        operator.at(key).value.update(repr(key))
        operator.owner(key).backend.event_timers.register(1, key)
    operator.commit()
    again = Operator(new_backend, files=operator.files)
    for key in again.keys("value"):
        states = again.at(key)
        assert states.value.value() == repr(key)
        assert states.backend.group_of(key) in states.backend.groups
    timers = [timer for states in again.subtasks for timer in states.backend.event_timers.pending()]
    assert sorted(repr(key) for _, key, _ in timers) == sorted(map(repr, KEYS))


@pytest.mark.parametrize("same", EQUAL_KEYS, ids=lambda same: repr(same[0])[:20])
def test_keys_that_are_equal_are_one_key(new_backend: NewBackend, same: list[Any]) -> None:
    operator = Operator(new_backend)
    for number, key in enumerate(same):
        operator.at(key).list.add(number)
        operator.at(key).reducing.add(number)
        operator.at(key).map.put(number, number)
        operator.owner(key).backend.event_timers.register(1, canonical_key(key))
        operator.commit()
    numbers = list(range(len(same)))
    snapshot = merged(operator.files, keep_deletes=False)
    for again in (operator, Operator(new_backend, 3, operator.files), Operator(new_backend, 3, snapshot)):
        for key in same:
            assert list(again.at(key).list.get()) == numbers
            assert again.at(key).reducing.get() == sum(numbers)
        assert len(again.keys("list")) == 1
        assert sum(len(states.backend.event_timers) for states in again.subtasks) == 1
    operator.at(same[-1]).clear()
    operator.owner(same[-1]).backend.event_timers.delete(1, canonical_key(same[-1]))
    operator.commit()
    assert operator.keys("list") == operator.exported() == []
    assert Operator(new_backend, files=operator.files).at(same[0]).seen() == NOTHING


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.LONG(), [0, 1, -1, 2**62, -(2**63), 255, 256, 65536]),
        (Types.STRING(), ["", "a", "ab", "a\0", "ä", "\U0001f600", "z" * 1000]),
        (Types.DOUBLE(), [0.5, -0.5, math.inf, -math.inf, math.nan, 1e-300]),
        (Types.BOOLEAN(), [True, False]),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), ("a", 2), ("", 1), ("a\0", 1), ("ab", -1)]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"a", b"\0", b"\xff\xff", b"a\0"]),
        (Types.PICKLED_BYTE_ARRAY(), ["a", 1, ("a", 1), None, b"a", Point(1, "a"), Colour.RED]),
        (Types.SQL_DATE(), [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    ],
    ids=lambda case: str(case)[:24] if isinstance(case, TypeInformation) else "",
)
def test_keys_of_a_declared_type(new_backend: NewBackend, key_type: TypeInformation, keys: list[Any]) -> None:
    declared = Declared(key=key_type)
    operator = Operator(new_backend, declared=declared)
    for number, key in enumerate(keys):
        operator.at(key, (0, 1)).fill(number)
        operator.at(key).fill(number)
    operator.commit()
    again = Operator(new_backend, 2, operator.files, declared=declared)
    for number, key in enumerate(keys):
        assert again.at(key).seen() == again.at(key, (0, 1)).seen() == operator.at(key).seen()
        assert again.at(key).value.value() == number
    assert len(again.keys("map")) == len(keys)


# --- key groups and parallelism


def test_a_key_has_one_group_for_ever(new_backend: NewBackend) -> None:
    backend = new_backend()
    for key in KEYS:
        assert backend.group_of(key) == key_group_of(key, MAX_PARALLELISM)
    assert key_group_of("a", MAX_PARALLELISM) == 14  # durable: if it changes, no checkpoint can be restored


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7, MAX_PARALLELISM])
def test_subtasks_share_all_groups(new_backend: NewBackend, parallelism: int) -> None:
    groups = [new_backend(parallelism, subtask).groups for subtask in range(parallelism)]
    assert [group for part in groups for group in part] == list(range(MAX_PARALLELISM))
    assert groups[0] == KeyGroupRange.for_subtask(MAX_PARALLELISM, parallelism, Subtask(0))


def work(operator: Operator, keys: range, number: int) -> None:
    for key in keys:
        states = operator.at(key)
        states.fill(number)
        states.backend.event_timers.register(key + number, key)
        operator.at(key, (0, number)).list.add(number)
    operator.commit()


def found(operator: Operator, keys: range) -> list[Any]:
    names = (None, *((0, number) for number in range(4)))
    cells = [operator.at(key, name).seen() for key in keys for name in names]
    timers = sorted(timer for states in operator.subtasks for timer in states.backend.event_timers.pending())
    return [cells, timers, [sorted(operator.keys(kind)) for kind in KINDS]]


PATHS = [[1, 3, 2], [3, 1, 16], [2, 16, 1], [7, 2, 3]]
WAYS = ["deltas", "snapshot", "whole state"]
#: Each way on a path of its own, or on all of them.
MOVES = [*itertools.product(PATHS, WAYS)] if THOROUGH else [*zip(PATHS, WAYS, strict=False)]


@pytest.mark.parametrize(("path", "by"), MOVES, ids=str)
def test_state_is_the_same_at_another_parallelism(new_backend: NewBackend, path: list[int], by: str) -> None:
    keys = range(60)
    expected = Operator(new_backend)
    operator = Operator(new_backend, path[0])
    for number, parallelism in enumerate(path):
        files = operator.files
        if by == "snapshot":
            files = merged(files, keep_deletes=False)
        elif by == "whole state":
            files = operator.exported()
        operator = Operator(new_backend, parallelism, files)
        work(operator, keys, number)
        work(expected, keys, number)
        operator.at(number).clear()
        expected.at(number).clear()
        operator.commit()
        expected.commit()
        assert found(operator, keys) == found(expected, keys)


def test_a_subtask_holds_only_keys_of_its_groups(new_backend: NewBackend) -> None:
    operator = Operator(new_backend)
    work(operator, range(200), 1)
    again = Operator(new_backend, 3, operator.files)
    for states in again.subtasks:
        backend = states.backend
        for kind in KINDS:
            held = list(backend.keys(kind))
            assert held
            assert all(backend.group_of(key) in backend.groups for key in held)
        assert all(backend.group_of(key) in backend.groups for _, key, _ in backend.event_timers.pending())


def test_keys_come_in_the_order_of_their_groups(new_backend: NewBackend) -> None:
    operator = Operator(new_backend)
    for key in range(100):
        operator.at(key).fill(key)
    for _ in range(2):  # within the epoch, and committed
        for kind in KINDS:
            groups = [key_group_of(key, MAX_PARALLELISM) for key in operator.keys(kind)]
            assert len(groups) == 100
            assert groups == sorted(groups)
        operator.commit()


def test_thousands_of_keys_in_one_group(new_backend: NewBackend) -> None:
    operator = Operator(new_backend, max_parallelism=2)
    for key in range(6000):
        operator.at(key).value.update(key)
        operator.at(key).list.add(key)
        operator.at(key).map.put("x", key)
    operator.commit()
    for key in range(0, 6000, 3):
        operator.at(key).clear()
    operator.commit()
    again = Operator(new_backend, 2, operator.files, max_parallelism=2)
    left = [key for key in range(6000) if key % 3]
    for kind in ("value", "list", "map"):
        assert sorted(again.keys(kind)) == left
    for key in left[::97]:
        assert again.at(key).seen() == {**NOTHING, "value": key, "list": [key], "map": {"x": key}}
