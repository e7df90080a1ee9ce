"""Key selectors, field access, projections, with-state functions."""

from __future__ import annotations

import pickle
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tidemill.common import Row, Types
from tidemill.datastream.functions import KeySelector, Partitioner
from tidemill.datastream.program.key_selectors import (
    FieldSelector,
    FunctionKeySelector,
    PositionSelector,
    as_key_selector,
    as_partitioner,
)
from tidemill.datastream.state import ValueState
from tidemill.datastream.streams.projection import Projection
from tidemill.datastream.streams.with_state import FilterWithState, FlatMapWithState, MapWithState
from tidemill.errors import GraphError, InvalidKeyError, TypeMismatchError

Pair = namedtuple("Pair", ["id", "n"])  # noqa: PYI024 - the untyped kind is used too


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class User:
    id: str
    address: Any = None


class Slotted:
    __slots__ = ("id",)

    def __init__(self, id: str) -> None:  # noqa: A002
        self.id = id


SHAPES: list[tuple[Any, Any, Any]] = [
    # selector, record, key
    (PositionSelector(1), ("a", 1), 1),
    (PositionSelector(0), ["a", 1], "a"),
    (PositionSelector(1), Row("a", 1), 1),
    (PositionSelector(1), Point(1, 2), 2),
    (FieldSelector("id"), Row(id="a", n=1), "a"),
    (FieldSelector("id"), {"id": "a"}, "a"),
    (FieldSelector("id"), Pair("a", 1), "a"),
    (FieldSelector("id"), User("a"), "a"),
    (FieldSelector("id"), Slotted("a"), "a"),
    (FieldSelector("f1"), ("a", 1), 1),
    (FieldSelector("f1"), ["a", 1], 1),
    (FieldSelector("f0"), Row("a", 1), "a"),
    (FieldSelector("address.city"), User("a", {"city": "Rome"}), "Rome"),
    (FieldSelector("address.id"), {"address": Row(id=3)}, 3),
    (FieldSelector("a.b.c"), {"a": {"b": {"c": 1}}}, 1),
]


@pytest.mark.parametrize(("selector", "record", "key"), SHAPES)
def test_one_key_and_many_keys(selector: Any, record: Any, key: Any) -> None:
    assert selector(record) == key
    assert selector.bulk([record, record]) == [key, key]
    assert selector.bulk([]) == []
    assert pickle.loads(pickle.dumps(selector)) == selector


def test_a_batch_may_hold_records_of_several_types() -> None:
    assert FieldSelector("id").bulk([{"id": 1}, User("a"), Row(id=2)]) == [1, "a", 2]
    assert PositionSelector(0).bulk([(1, 2), [3], Row(4)]) == [1, 3, 4]


@pytest.mark.parametrize(
    ("selector", "record", "words"),
    [
        (PositionSelector(2), ("a", 1), ["key_by(2)", "tuple", "f0, f1"]),
        (PositionSelector(0), "text", ["str", "position 0"]),
        (PositionSelector(0), {"id": 1}, ["dict", "id"]),
        (FieldSelector("name"), {"id": 1}, ["key_by('name')", "dict", "'name'", "id"]),
        (FieldSelector("name"), Row(id=1), ["Row", "'name'", "id"]),
        (FieldSelector("name"), User("a"), ["User", "'name'", "id, address"]),
        (FieldSelector("name"), ("a",), ["tuple", "'name'"]),
        (FieldSelector("f7"), ("a",), ["tuple", "'f7'"]),
        (FieldSelector("id.x"), {"id": 5}, ["int", "'x'"]),
        (FieldSelector("id"), None, ["NoneType"]),
    ],
)
def test_a_missing_field_is_named_with_the_type_of_the_record(selector: Any, record: Any, words: list[str]) -> None:
    with pytest.raises(InvalidKeyError) as one:
        selector(record)
    with pytest.raises(InvalidKeyError) as many:
        selector.bulk([record])
    assert str(one.value) == str(many.value)
    assert all(word in str(one.value) for word in words), str(one.value)


def test_the_wrong_record_of_a_batch_is_found() -> None:
    with pytest.raises(InvalidKeyError, match="'other'"):
        FieldSelector("id").bulk([{"id": 1}, {"other": 2}])


def test_what_key_by_accepts() -> None:
    class ById(KeySelector):
        def get_key(self, value: Any) -> Any:
            return value["id"]

    plain = str.lower
    assert as_key_selector(0) == PositionSelector(0)
    assert as_key_selector("a.b") == FieldSelector("a.b")
    assert as_key_selector(plain) is plain
    selector = as_key_selector(ById())
    assert isinstance(selector, FunctionKeySelector)
    assert (selector({"id": 1}), selector.bulk([{"id": 2}])) == (1, [2])


@pytest.mark.parametrize("key", [True, None, 1.5, object()])
def test_what_key_by_refuses(key: Any) -> None:
    with pytest.raises(TypeError, match="position, a field name"):
        as_key_selector(key)


@pytest.mark.parametrize("key", [-1, "", "a..b", ".a"])
def test_keys_of_a_wrong_form(key: Any) -> None:
    with pytest.raises(ValueError, match="key_by"):
        as_key_selector(key)


def test_partitioners() -> None:
    class Mod(Partitioner):
        def partition(self, key: Any, num_partitions: int) -> int:
            return int(key) % num_partitions

    assert as_partitioner(Mod())(7, 4) == 3
    assert as_partitioner(lambda key, count: 0)(7, 4) == 0
    with pytest.raises(TypeError, match="partitioner"):
        as_partitioner(3)


class TestProjection:
    def test_shapes(self) -> None:
        assert Projection((1, 1)).map(("a", "b")) == ("b", "b")
        assert Projection((1,)).map(["a", "b"]) == ("b",)
        assert Projection((1,)).map(Row(id=1, n=2)) == Row(n=2)
        assert Projection((1,)).map(Row(1, 2)) == Row(2)

    def test_types(self) -> None:
        names = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()])
        assert Projection((1,)).type_of(names) == Types.ROW_NAMED(["n"], [Types.LONG()])
        assert Projection((0,)).type_of(Types.LONG()) is None
        assert Projection((0,)).type_of(None) is None
        with pytest.raises(GraphError, match="2 fields"):
            Projection((2,)).type_of(names)

    def test_errors(self) -> None:
        with pytest.raises(TypeMismatchError, match="lacks"):
            Projection((2,)).map((1, 2))
        with pytest.raises(TypeMismatchError, match="no positions"):
            Projection((0,)).map(3)
        for wrong in ((), (-1,), ("a",), (True,)):
            with pytest.raises(ValueError, match="project"):
                Projection(wrong)  # type: ignore[arg-type]


class FakeState(ValueState[Any]):
    def __init__(self) -> None:
        self.held: Any = None
        self.writes: list[Any] = []

    def value(self) -> Any:
        return self.held

    def update(self, value: Any) -> None:
        self.held = value
        self.writes.append(value)

    def clear(self) -> None:
        self.held = None
        self.writes.append("cleared")


class FakeContext:
    def __init__(self) -> None:
        self.state = FakeState()

    def get_state(self, descriptor: Any) -> FakeState:
        assert descriptor.name == "with-state"
        return self.state


class TestWithState:
    def open(self, function: Any) -> FakeState:
        context = FakeContext()
        function.open(context)
        return context.state

    def test_map(self) -> None:
        function = MapWithState(lambda value, count: (f"{value}{count}", (count or 0) + 1))
        state = self.open(function)
        out = [result for value in "aab" for result in function.process_element(value, None)]  # type: ignore[arg-type]
        assert out == ["aNone", "a1", "b2"]
        assert state.writes == [1, 2, 3]

    def test_none_clears_and_nothing_is_written_for_nothing(self) -> None:
        function = MapWithState(lambda value, old: (value, value or None))
        state = self.open(function)
        for value in (0, 5, 0, 0):
            list(function.process_element(value, None))  # type: ignore[arg-type]
        assert state.writes == [5, "cleared"]

    def test_flat_map_and_filter(self) -> None:
        flat = FlatMapWithState(lambda value, old: ([value] * (old or 0), (old or 0) + 1))
        self.open(flat)
        assert [list(flat.process_element("x", None) or ()) for _ in range(3)] == [[], ["x"], ["x", "x"]]  # type: ignore[arg-type]
        first = FilterWithState(lambda value, seen: (not seen, True))
        self.open(first)
        assert [list(first.process_element(value, None)) for value in "ab"] == [["a"], []]  # type: ignore[arg-type]

    def test_a_result_that_is_no_pair_is_an_error(self) -> None:
        function = MapWithState(lambda value, old: value)
        self.open(function)
        with pytest.raises(TypeError, match=r"pair \(result, new state\)"):
            function.process_element("x", None)  # type: ignore[arg-type]

    def test_a_callable_is_needed(self) -> None:
        with pytest.raises(TypeError, match="callable"):
            MapWithState(3)  # type: ignore[arg-type]


def test_rows_of_one_batch_may_have_their_names_in_another_order() -> None:
    rows = [Row(id=1, n=2), Row(n=3, id=4), Row(id=5, n=6)]
    assert FieldSelector("id").bulk(rows) == [1, 4, 5]
    assert PositionSelector(1).bulk([Row(1, 2), Row(id=3, n=4)]) == [2, 4]
    with pytest.raises(InvalidKeyError, match="position 1"):
        PositionSelector(1).bulk([Row(1, 2), Row(3)])
