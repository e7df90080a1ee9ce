"""Values of every type that can be declared: the same object in the epoch, from the base, and from files."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from array import array
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.contract.keyed_state import (
    NOTHING,
    Colour,
    Declared,
    NewBackend,
    Operator,
    Point,
    commit,
    load,
    merged,
    to_file,
)
from tidemill.common import Duration, Instant, Row, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions import AggregateFunction
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidemill.errors import SerializationError


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


class Level(enum.IntEnum):
    HIGH = 3


class Code(str):
    """A text with methods of its own."""

    __slots__ = ()


@dataclasses.dataclass
class Measured:
    value: float
    parts: list[float]


class Reading(NamedTuple):
    value: float
    unit: str


@dataclasses.dataclass
class Scaled:
    """Converts what is assigned: a stored value must not be converted again."""

    meters: int

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, 1000 * value)


NUMBER_AND_TEXT = [Types.DOUBLE(), Types.STRING()]
#: Values that a type takes, but that storage brings back in another form: what was put, and what is found.
OTHER_FORMS: dict[str, tuple[TypeInformation, list[tuple[Any, Any]]]] = {
    "double": (Types.DOUBLE(), [(1, 1.0), (True, 1.0), (np.float64(1.5), 1.5), (2**53, float(2**53))]),
    "float": (Types.FLOAT(), [(1, 1.0), (0.1, 0.10000000149011612), (np.float32(0.5), 0.5)]),
    "long": (Types.LONG(), [(True, 1), (Level.HIGH, 3), (np.int64(4), 4)]),
    "int": (Types.INT(), [(True, 1), (Level.HIGH, 3)]),
    "short": (Types.SHORT(), [(False, 0)]),
    "byte": (Types.BYTE(), [(True, 1)]),
    "boolean": (Types.BOOLEAN(), [(np.bool_(True), True)]),
    "string": (Types.STRING(), [(Code("a"), "a"), (np.str_("b"), "b")]),
    "big int": (Types.BIG_INT(), [(True, 1), (Level.HIGH, 3)]),
    "big decimal": (Types.BIG_DEC(), [(Decimal("1.10"), Decimal("1.10")), (Decimal("1E+3"), Decimal("1E+3"))]),
    "timestamp": (
        Types.SQL_TIMESTAMP(),
        [(NOON.replace(tzinfo=dt.timezone.utc), NOON.replace(tzinfo=dt.timezone.utc))],
    ),
    "tuple": (
        Types.TUPLE(NUMBER_AND_TEXT),
        [((1, "a"), (1.0, "a")), ([1.0, "a"], (1.0, "a")), (Row(1, "a"), (1.0, "a")), (Reading(1, "a"), (1.0, "a"))],
    ),
    "list": (Types.LIST(Types.DOUBLE()), [([1, 2], [1.0, 2.0]), ((1.0,), [1.0])]),
    "list of tuples": (Types.LIST(Types.TUPLE([Types.DOUBLE()])), [([(1,)], [(1.0,)]), ([[1.0]], [(1.0,)])]),
    "array": (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [([1], [1.0]), (array("d", [1.0]), [1.0])]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [(bytearray(b"a"), b"a"), ([1, 2], b"\x01\x02")]),
    "map": (Types.MAP(Types.DOUBLE(), Types.DOUBLE()), [({1: 2}, {1.0: 2.0})]),
    "row": (Types.ROW(NUMBER_AND_TEXT), [(Row(1, "a"), Row(1.0, "a")), ((1.0, "a"), Row(1.0, "a"))]),
    "named row": (
        Types.ROW_NAMED(["x", "y"], NUMBER_AND_TEXT),
        [({"x": 1, "y": "a"}, Row(x=1.0, y="a")), (Row(y="a", x=1.0), Row(x=1.0, y="a"))],
    ),
    "dataclass": (Types.DATACLASS(Measured), [(Measured(1, [1]), Measured(1.0, [1.0]))]),
    "list of dataclasses": (Types.LIST(Types.DATACLASS(Measured)), [([Measured(1, [])], [Measured(1.0, [])])]),
    "named tuple": (Types.NAMED_TUPLE(Reading), [(Reading(1, "a"), Reading(1.0, "a"))]),
    # Items are converted as Flink's serializers do it.
    "tuple of numbers": (
        Types.TUPLE([Types.INT(), Types.BIG_DEC(), Types.BOOLEAN()]),
        [((1.5, 2, 1), (1, Decimal(2), True)), ((np.float64(2.5), "0.5", 0.0), (2, Decimal("0.5"), False))],
    ),
    "list of ints": (Types.LIST(Types.INT()), [([1.5, 2], [1, 2]), ((Decimal("3.7"),), [3]), ([4, None], [4, None])]),
    "lists of lists": (Types.LIST(Types.LIST(Types.INT())), [([[1.5], (2,)], [[1], [2]])]),
    "map to ints": (Types.MAP(Types.STRING(), Types.INT()), [({"a": 1.5, "b": 2}, {"a": 1, "b": 2})]),
    "row of decimals": (Types.ROW_NAMED(["x"], [Types.BIG_DEC()]), [(Row(1), Row(x=Decimal(1)))]),
    "tuple with a time": (
        Types.TUPLE([Types.INT(), Types.SQL_TIMESTAMP()]),
        # Only a value that has to be converted gets Flink's precision.
        [((1, NOON), (1, NOON)), ((2.5, NOON), (2, NOON.replace(microsecond=0)))],
    ),
}
#: Converted when they are put: a function finds in the epoch what it finds later.
AT_ONCE = ("double", "float", "long", "int", "short", "byte", "boolean", "string", "big int")


def shown(value: Any) -> Any:
    """A value with the types of all its parts."""
    if isinstance(value, dict):
        return dict, [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, Row)):
        names = value.get_field_names() if isinstance(value, Row) else None
        return type(value), names, [shown(part) for part in value]
    if isinstance(value, Measured):
        return Measured, shown(value.value), shown(value.parts)
    return type(value), value


@pytest.mark.parametrize("ttl", [False, True], ids=["for ever", "with a time to live"])
@pytest.mark.parametrize("case", OTHER_FORMS)
def test_memory_has_the_form_of_storage(new_backend: NewBackend, case: str, ttl: bool) -> None:
    type_info, values = OTHER_FORMS[case]

    class Typed:
        def __init__(self, files: list[bytes]) -> None:
            self.backend = load(new_backend(), files)
            descriptors: list[Any] = [
                ValueStateDescriptor("value", type_info),
                ListStateDescriptor("list", type_info),
                MapStateDescriptor("map", Types.LONG(), type_info),
                ReducingStateDescriptor("reducing", lambda one, two: two, type_info),
            ]
            if ttl:
                for descriptor in descriptors:
                    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_days(1)).build())
            self.value = self.backend.value_state(descriptors[0])
            self.list = self.backend.list_state(descriptors[1])
            self.map = self.backend.map_state(descriptors[2])
            self.reducing = self.backend.reducing_state(descriptors[3])
            self.backend.begin_epoch()

        def at(self, number: int) -> Typed:
            self.backend.context.key = number
            return self

        def found(self, number: int) -> list[Any]:
            self.at(number)
            every = [self.value.value(), *self.list.get(), self.map.get(0), *self.map.values(), self.reducing.get()]
            return list(map(shown, every))

    warm = Typed([])
    for number, (put, _) in enumerate(values):
        states = warm.at(number)
        states.value.update(put)
        states.list.add(put)
        states.list.add_all([put])
        states.map.put(0, put)
        states.map.put_all({1: put})
        states.reducing.add(put)
        states.reducing.add(put)
    every = [[shown(expected)] * 7 for _, expected in values]
    if case in AT_ONCE:
        assert [warm.found(number) for number in range(len(values))] == every, "in the epoch"
    files = [to_file(commit(warm.backend))]
    assert [warm.found(number) for number in range(len(values))] == every, "in memory"
    cold = Typed(files)
    assert [cold.found(number) for number in range(len(values))] == every, "from storage"


class Summing(AggregateFunction):
    """Its accumulator is declared as a double, but it computes with ints."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: float) -> float:
        return int(accumulator) + value

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, acc_a: float, acc_b: float) -> float:
        return int(acc_a) + int(acc_b)


@pytest.mark.parametrize("ttl", [False, True], ids=["for ever", "with a time to live"])
@pytest.mark.parametrize("kind", ["aggregating", "reducing"])
def test_what_a_function_combines_has_the_form_of_storage(new_backend: NewBackend, kind: str, ttl: bool) -> None:
    """However values are added: in windows, several are added at once, and sessions are merged."""
    descriptor: Any = AggregatingStateDescriptor("sum", Summing(), Types.DOUBLE())
    if kind == "reducing":
        descriptor = ReducingStateDescriptor("sum", lambda one, two: int(one) + int(two), Types.DOUBLE())
    if ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_days(1)).build())
    backend = new_backend()
    state = backend.keyed_state(descriptor)
    backend.begin_epoch()
    found = []
    for epoch in range(2):
        backend.context.key = "a"
        state.add(1)
        state.add(2)
        found.append(state.get())
        if not ttl:
            backend.context.key = "b"
            state.add_all([1, 2])
            found.append(state.get())
            state.add_each(["c", "c"], [1, 2])
            found.append(state.get())
        for namespace in ((0, 1), (0, 2), (0, 3)):
            state.set_current_namespace(namespace)
            state.add(1)
        state.merge_namespaces((0, 1), [(0, 2), (0, 3)])
        found.append(state.get())
        state.clear()
        state.set_current_namespace(None)
        if epoch == 0:
            commit(backend)
    times = 2 if ttl else 4
    assert list(map(repr, found)) == [*["3.0"] * times, *["6.0"] * (times - 1), "3.0"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_dataclass_that_changes_what_is_assigned(new_backend: NewBackend, declared: bool) -> None:
    type_info = Types.DATACLASS(Scaled) if declared else None
    operator = Operator(new_backend, declared=Declared(value=type_info))
    operator.at("a").value.update(Scaled(2))
    operator.commit()
    cold = Operator(new_backend, files=operator.files, declared=Declared(value=type_info))
    assert operator.at("a").value.value().meters == cold.at("a").value.value().meters == 2000


@pytest.mark.parametrize(("key", "expected"), [(1, 1.0), (True, 1.0), (float("nan"), float("nan"))])
def test_keys_of_maps_have_the_form_of_storage(new_backend: NewBackend, key: Any, expected: Any) -> None:
    declared = Declared(value=Types.LONG(), user_key=Types.DOUBLE())
    operator = Operator(new_backend, declared=declared)
    operator.at("a").map.put(key, 1)
    operator.at("a").map.put_all({key: 2})
    for settle in (lambda: None, operator.commit):
        settle()
        states = operator.at("a")
        assert [repr(found) for found in states.map] == [repr(expected)]
        assert (states.map.get(key), states.map.contains(key)) == (2, True)
    cold = Operator(new_backend, 2, operator.files, declared=declared).at("a")
    assert [repr(found) for found in cold.map] == [repr(expected)]
    assert cold.map.get(key) == 2


def test_what_a_type_does_not_take_is_refused_with_the_epoch(new_backend: NewBackend) -> None:
    of_ints = Types.TUPLE([Types.INT()])
    cases = ((Types.DOUBLE(), "1"), (Types.LONG(), "1.5"), (Types.STRING(), 7), (of_ints, ("1",)), (of_ints, (1, 2)))
    for type_info, value in cases:
        operator = Operator(new_backend, declared=Declared(value=type_info))
        operator.at("a").value.update(value)
        assert operator.at("a").value.value() == value
        with pytest.raises(SerializationError, match="'value'"):
            operator.commit()
