"""Rows to sections and back: all kinds of state, declared and undeclared types, all ops."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest

from tidemill.common import Types
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from tidemill.errors import SerializationError
from tidemill.state.files.rows import APPEND, CLEAR, DELETE, PUT, Rows
from tidemill.state.files.sections import TIMER_SHAPE, StateShape, read_rows, write_rows
from tidemill.state.files.state_file import decode_sections, encode_sections
from tidemill.state.keyed.kinds import shape_of
from tidemill.state.keys.key_groups import GroupCache, key_group_of

MAX_PARALLELISM = 32


class Color(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Place:
    city: str


def through_a_file(shape: StateShape, rows: Rows) -> Rows:
    """Rows written as a section of a state file, and read again; sorted by key group on the way."""
    section = write_rows("op", "state", shape, rows, GroupCache(MAX_PARALLELISM), "operator 'op'")
    data, _ = encode_sections([section])
    (again,) = decode_sections(data, "file")
    assert (again.operator, again.state, again.kind) == ("op", "state", shape.kind)
    return read_rows(again, shape)


def entries(rows: Rows) -> list[tuple[Any, ...]]:
    """The rows as tuples, with what an empty list stands for filled in."""
    count = len(rows.keys)
    columns = (
        rows.keys,
        rows.namespaces or [None] * count,
        rows.ops or [PUT] * count,
        rows.user_keys or [None] * count,
        rows.values,
    )
    return list(zip(*columns, strict=True))


def by_group(rows: Rows) -> list[tuple[Any, ...]]:
    return sorted(entries(rows), key=lambda row: key_group_of(row[0], MAX_PARALLELISM))


SHAPES: list[tuple[StateDescriptor, Any, Rows]] = [
    (ValueStateDescriptor("v", Types.LONG()), Types.STRING(), Rows(["a", "b", "c"], values=[1, 2, 3])),
    (
        ValueStateDescriptor("v"),
        None,
        Rows([1, "b", None, ("t", 1.5), b"x"], values=[{}, [1], "c", Color.RED, Place("x")]),
    ),
    (
        ValueStateDescriptor("v", Types.STRING()),
        None,
        Rows(["a", "b", "a"], [None, (0, 5), (0, 5)], [DELETE, PUT, PUT], values=[None, "x", ""]),
    ),
    (
        ListStateDescriptor("l", Types.LONG()),
        None,
        Rows(["a", "b", "c"], ops=[APPEND, DELETE, PUT], values=[[1, 2], [], [3]]),
    ),
    (ListStateDescriptor("l"), Types.LONG(), Rows([1, 2], values=[["x", None, 1], [{"a": []}]])),
    (
        MapStateDescriptor("m", Types.STRING(), Types.LONG()),
        None,
        Rows(["a", "a", "a"], ops=[CLEAR, PUT, DELETE], user_keys=[None, "x", "y"], values=[None, 1, None]),
    ),
    (MapStateDescriptor("m"), None, Rows(["a", "b"], user_keys=[None, ("t",)], values=[None, [1]])),
]


@pytest.mark.parametrize(("descriptor", "key_type", "rows"), SHAPES)
def test_rows_survive_a_file(descriptor: StateDescriptor, key_type: Any, rows: Rows) -> None:
    again = through_a_file(shape_of(descriptor, key_type), rows)
    assert entries(again) == by_group(rows)


def test_timers_survive_a_file() -> None:
    rows = Rows(["a", "b"], ops=[PUT, DELETE], values=[5, -(2**63)])
    assert entries(through_a_file(TIMER_SHAPE.with_key(Types.STRING()), rows)) == by_group(rows)


def test_nan_keys_are_found_again() -> None:
    nan = float("nan")
    again = through_a_file(shape_of(ValueStateDescriptor("v"), None), Rows([nan, ("a", nan)], values=[1, 2]))
    table = dict(zip(again.keys, again.values, strict=True))
    twice = through_a_file(shape_of(ValueStateDescriptor("v"), None), Rows([nan, ("a", nan)], values=[1, 2]))
    assert sorted(table[key] for key in twice.keys) == [1, 2]


def test_the_key_group_is_a_column() -> None:
    shape = shape_of(ValueStateDescriptor("v"), None)
    section = write_rows("op", "v", shape, Rows(["a"], values=[1]), GroupCache(MAX_PARALLELISM), "operator 'op'")
    assert section.table.column("key_group").to_pylist() == [key_group_of("a", MAX_PARALLELISM)]


@pytest.mark.parametrize(
    ("descriptor", "key_type", "rows"),
    [
        (ValueStateDescriptor("v", Types.LONG()), None, Rows(["a"], values=["text"])),
        (ValueStateDescriptor("v", Types.LONG()), Types.LONG(), Rows(["a"], values=[1])),
        (ListStateDescriptor("v", Types.LONG()), None, Rows(["a"], values=[["text"]])),
        (MapStateDescriptor("v", Types.LONG(), Types.LONG()), None, Rows(["a"], user_keys=["x"], values=[1])),
        (ValueStateDescriptor("v"), None, Rows(["a"], values=[lambda: (yield)])),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_state(
    descriptor: StateDescriptor, key_type: Any, rows: Rows
) -> None:
    shape = shape_of(descriptor, key_type)
    if callable(rows.values[0]):
        rows.values[0] = (n for n in range(3))
    with pytest.raises(SerializationError, match=r"state 'v' of operator 'op' cannot be stored"):
        write_rows("op", "v", shape, rows, GroupCache(MAX_PARALLELISM), "operator 'op'")
