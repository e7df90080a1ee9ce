from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from tidemill.common import Row, Types
from tidemill.datastream import MapFunction, OutputTag
from tidemill.runtime.batch.emitted import Emissions, Knowledge, UnsteadyOutputError, are_fixed, is_unshared
from tidemill.state.codecs.copies import copied_record
from tidemill.testing import OperatorHarness


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Event:
    n: Any


@dataclass(frozen=True)
class Frozen:
    n: Any


def looking() -> Emissions:
    return Emissions("operator 'it'", "uid", Knowledge.CHANGING)


# --- what can change


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1, 2],
        [1, "a", None],
        [(1, "a"), (2, "b")],
        [(1, "a"), (2, None), (3,)],
        [(1, (2, (3,)))],
        [(OutputTag("late"), 1)],
        [Color.RED, Point(1, 2), Frozen("a")],
        [tuple(range(20))],
        [np.int64(3), np.float32(0.5), frozenset({(2,)}), range(3)],
    ],
    ids=["nothing", "ints", "several", "pairs", "widths", "nested", "tagged", "classes", "wide", "numpy and others"],
)
def test_what_cannot_change(values: list[Any]) -> None:
    assert are_fixed(values)


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {"a": 1},
        Row(1),
        Event(1),
        Point(1, []),
        Frozen([]),
        (1, [2]),
        (1, (2, {})),
        bytearray(b"a"),
        {1},
        np.zeros(1),
    ],
)
def test_what_can_change(value: Any) -> None:
    assert not are_fixed([value])
    assert not are_fixed([1, value])
    assert not are_fixed([(1, 2), (1, value)])


# --- copies


class Slots:
    __slots__ = ("n",)

    def __init__(self, n: Any) -> None:
        self.n = n


class Reduced:
    """Says itself what a copy is."""

    def __init__(self) -> None:
        self.copies = 0

    def __setstate__(self, state: Any) -> None:
        self.copies = state["copies"] + 1


def test_copies_share_nothing() -> None:
    inner = [1]
    for value in ({"a": inner}, [inner], Row(a=inner), (1, inner), Event(inner), Frozen({"a": inner}), Slots(inner)):
        before = repr(copied_record(value)) if not isinstance(value, Slots) else "[1]"
        other = copied_record(value)
        inner.append(2)
        assert repr(other) == before if not isinstance(value, Slots) else other.n == [1]
        inner.pop()
    row = Row(a=1)
    assert copied_record(row) == row
    assert copied_record(row) is not row
    assert copied_record(Reduced()).copies == 1
    fixed = (1, (2, "a"))
    assert copied_record(fixed) is fixed


# --- who holds an object


def test_nested_objects_that_something_else_holds() -> None:
    # In variables, as the arguments of calls in an assertion are held by pytest.
    nested, event = is_unshared({"a": [1, {"b": 2}], "c": (1, [2])}), is_unshared(Event([1]))
    assert nested
    assert event
    held = [1]
    assert not is_unshared({"a": held})
    assert not is_unshared(Event(held))
    assert not is_unshared([(held,)])
    assert not is_unshared(Slots(1)), "who knows what it holds"


def taken(make: Callable[[], Any], keep: list[Any] | None = None, *, as_list: bool = False) -> tuple[int, Any]:
    """The identity of an object that a function yields or returns in a list, and what is made of it."""
    identity = 0

    def function() -> Iterator[Any]:
        nonlocal identity
        value = make()
        identity = id(value)
        if keep is not None:
            keep.append(value)
        result = [value]
        del value
        yield result.pop()

    values: list[Any] = []
    extend = looking().extend_of(values)
    result = list(function()) if as_list else function()
    extend(result)
    return identity, values[0]


@pytest.mark.parametrize("as_list", [False, True], ids=["yielded", "in a list"])
@pytest.mark.parametrize("make", [lambda: [1], lambda: {"a": [1]}, lambda: Row(1), lambda: Event(1), lambda: (1, [2])])
def test_what_nothing_else_holds_is_not_copied(make: Callable[[], Any], as_list: bool) -> None:
    identity, value = taken(make, as_list=as_list)
    assert id(value) == identity
    kept: list[Any] = []
    identity, value = taken(make, kept, as_list=as_list)
    assert id(value) != identity
    assert value == kept[0]


class Returning(MapFunction):
    """Returns its input or something new, and may keep it; a method that looks at itself is not trusted."""

    def __init__(self, new: bool, keep: bool) -> None:
        self.new = new
        self.keep = keep
        self.identities: list[int] = []

    def open(self, runtime_context: Any) -> None:
        self.kept: list[Any] = []

    def map(self, value: Any) -> Any:
        result = {"n": 1} if self.new else value
        if self.keep:
            self.kept.append(result)
        Seen.identities.append(id(result))
        return result


class Seen:
    identities: list[int] = []  # noqa: RUF012 - functions are copied, classes are not


@pytest.mark.parametrize("new", [False, True], ids=["its input", "something new"])
@pytest.mark.parametrize("keep", [False, True], ids=["given away", "kept"])
def test_what_map_returns_is_copied_only_if_it_is_kept(new: bool, keep: bool) -> None:
    Seen.identities = []
    with OperatorHarness(lambda stream: stream.map(lambda n: {"n": n}).map(Returning(new, keep))) as harness:
        harness.process_all([1, 2, 3])
        copies = [id(value) for value in harness.output()] != Seen.identities
    assert copies is keep


# --- what an operator learns


def looks(emissions: Emissions) -> bool:
    return emissions.looks


def test_what_is_learned_of_an_operator() -> None:
    emissions = Emissions.of("operator 'it'", "uid", None, [])
    assert looks(emissions)
    assert emissions.settle([1, 2])
    assert not looks(emissions)
    assert emissions.settle([3])
    with pytest.raises(UnsteadyOutputError, match="operator 'it' has emitted a mutable record, of type list"):
        emissions.settle([4, [5]])
    emissions.pin()
    assert looks(emissions)
    assert not emissions.settle([6])


def test_what_is_known_from_types() -> None:
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    assert not Emissions.of("it", "uid", pair, []).looks
    assert not Emissions.of("it", "uid", pair, [Types.LONG()]).looks
    assert Emissions.of("it", "uid", pair, [Types.PICKLED_BYTE_ARRAY()]).looks
    assert Emissions.of("it", "uid", Types.ROW([Types.LONG()]), []).looks
    assert Emissions.of("it", "uid", pair, [], learns=False).looks
    reusing = Emissions.of("it", "uid", None, [], reuse=True)
    assert not reusing.looks
    assert reusing.reuses
    reusing.pin()
    assert not reusing.looks
