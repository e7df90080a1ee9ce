"""A value of each type and of each odd form, at each boundary that it can cross."""

from __future__ import annotations

import datetime as dt
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from tests.semantics.differential.program import shown
from tidemill.common import Instant, Row, Types
from tidemill.datastream import KeyedProcessFunction
from tidemill.datastream.state import ValueStateDescriptor


class Colour(IntEnum):
    RED = 1


class Text(str):
    """A subclass of a basic type."""

    __slots__ = ()


class Pair(NamedTuple):
    a: Any
    b: Any


class Plain:
    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b

    def __repr__(self) -> str:
        return "Plain()"


def with_a_zone(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))


MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
ROW = Row(1, "a")
NAMED = Row(a=1, b="a")
TURNED = Row(b="a", a=1)
OTHER = Row(x=1, y="a")

WHOLE: list[Any] = [
    0, 1, -1, 127, 128, -129, 200, 255, 256, 32767, 32768, -32769, 65535, 65536, 2**31 - 1, 2**31, -(2**31) - 1,
    2**32, 2**63 - 1, 2**63, -(2**63) - 1, 2**64 + 5, True, 1.0, 1.5, -1.5, 1e10, float("nan"), float("inf"),
    np.int8(5), np.int64(7), np.int64(300), np.uint8(200), np.float64(2.5), np.bool_(True), Decimal("3.7"), "5", "x",
    Colour.RED, None, b"1", [1],
]  # fmt: skip
REAL: list[Any] = [
    0.0, -0.0, 1.5, 0.1, 1e-50, 3.4e38, 1e39, 1e300, float("nan"), float("inf"), -float("inf"), 1, 2**24 + 1,
    2**53 + 1, 10**30, 10**400, True, np.float32(0.1), np.float64(0.1), np.int64(3), Decimal("0.1"), "1.5", None,
]  # fmt: skip
TEXT: list[Any] = [
    "a", "", "ab", "ü€😀", "\ud800", "a\x00b", Text("sub"), np.str_("np"), b"bytes", 1, 1.5, None, ["a"], True,
]  # fmt: skip
TRUTH: list[Any] = [True, False, 0, 1, 2, -1, 255, 256, 300, 0.0, 0.5, 1.5, "", "x", "true", None, np.bool_(True),
    np.int64(1), Decimal(1), [], [1]]  # fmt: skip
BIG: list[Any] = [0, 2**63, -(2**100), True, 1.5, "7", np.int64(7), Decimal(7), Decimal("1.5"), None]
DECIMALS: list[Any] = [
    Decimal("1.50"), Decimal("1E+3"), Decimal("-0"), Decimal("NaN"), Decimal("0.1234567890123456789012345678901234567"),
    1, 2**70, 1.5, 0.1, True, "1.5", "x", np.float64(0.5), np.int64(5), None,
]  # fmt: skip
DATES: list[Any] = [
    MOMENT.date(), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(1582, 10, 10), MOMENT,
    with_a_zone(MOMENT), 19000, "2024-02-29", None,
]  # fmt: skip
TIMES: list[Any] = [
    dt.time(12, 30, 15, 123456), dt.time(0, 0), dt.time(23, 59, 59, 999999), dt.time(1, 2, 3, 400), MOMENT,
    dt.timedelta(hours=1), 3600000, "12:30", dt.time(1, 0, tzinfo=dt.timezone.utc), None,
]  # fmt: skip
MOMENTS: list[Any] = [
    MOMENT, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999), with_a_zone(MOMENT), MOMENT.date(), 1700000000000, "2024-02-29",
    None,
]  # fmt: skip
INSTANTS: list[Any] = [
    Instant(5, 123456789),
    Instant(0, 0),
    Instant(-1, 5),
    Instant.of_epoch_milli(1234),
    MOMENT,
    5,
    None,
]
PAIRS: list[Any] = [
    (1, "a"), [1, "a"], ROW, NAMED, TURNED, OTHER, Pair(1, "a"), Plain(1, "a"), {"a": 1, "b": "a"}, {"b": "a", "a": 1},
    {"a": 1}, {"f0": 1, "f1": "a"}, (1,), (1, "a", 2), (None, None), (1, None), ("1", "a"), (1.5, "a"), (True, "a"),
    (np.int64(1), "a"), "ab", 1, None, Row(1), Row(1, "a", 2),
]  # fmt: skip
LISTS: list[Any] = [
    [1, 2], [], (1, 2), [1, None], [None], [1.5, True], [np.int64(1)], np.array([1, 2]), array("i", [1, 2]),
    ["1"], {1: 2}, {1}, "12", b"\x01\x02", bytearray(b"\x01"), range(2), 1, None, [2**40],
]  # fmt: skip
MAPS: list[Any] = [
    {"a": 1}, {}, {"a": None}, {"a": 1.5}, {"a": "1"}, {1: 1}, {None: 1}, {"b": 1, "a": 2}, [("a", 1)], Row(a=1), None,
    {"a": np.int64(1)}, {"a": 2**40},
]  # fmt: skip
ANY: list[Any] = [1, 1.5, "a", b"b", None, (1, 2), [1, (2,)], {"a": {1}}, ROW, NAMED, MOMENT, Decimal(1), np.int64(1),
    Pair(1, 2), Colour.RED, {1, 2}, frozenset({1}), 2**70, Instant(1, 2), complex(1, 2)]  # fmt: skip

TYPES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "BYTE": (Types.BYTE, WHOLE),
    "SHORT": (Types.SHORT, WHOLE),
    "INT": (Types.INT, WHOLE),
    "LONG": (Types.LONG, WHOLE),
    "FLOAT": (Types.FLOAT, REAL),
    "DOUBLE": (Types.DOUBLE, REAL),
    "BOOLEAN": (Types.BOOLEAN, TRUTH),
    "STRING": (Types.STRING, TEXT),
    "CHAR": (Types.CHAR, TEXT),
    "BIG_INT": (Types.BIG_INT, BIG),
    "BIG_DEC": (Types.BIG_DEC, DECIMALS),
    "SQL_DATE": (Types.SQL_DATE, DATES),
    "SQL_TIME": (Types.SQL_TIME, TIMES),
    "SQL_TIMESTAMP": (Types.SQL_TIMESTAMP, MOMENTS),
    "INSTANT": (Types.INSTANT, INSTANTS),
    "TUPLE": (lambda: Types.TUPLE([Types.INT(), Types.STRING()]), PAIRS),
    "ROW": (lambda: Types.ROW([Types.INT(), Types.STRING()]), PAIRS),
    "ROW_NAMED": (lambda: Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), PAIRS),
    "LIST": (lambda: Types.LIST(Types.INT()), LISTS),
    "BASIC_ARRAY": (lambda: Types.BASIC_ARRAY(Types.INT()), LISTS),
    "PRIMITIVE_ARRAY": (lambda: Types.PRIMITIVE_ARRAY(Types.INT()), LISTS),
    "PRIMITIVE_BYTES": (lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()), [*LISTS, [200], [-1, 255], [256]]),
    "OBJECT_ARRAY": (
        lambda: Types.OBJECT_ARRAY(Types.STRING()),
        [["a", "b"], [], ["a", None], ("a",), [1], "ab", None],
    ),
    "MAP": (lambda: Types.MAP(Types.STRING(), Types.INT()), MAPS),
    "PICKLED": (Types.PICKLED_BYTE_ARRAY, ANY),
    "NESTED": (
        lambda: Types.ROW_NAMED(["r", "l"], [Types.ROW([Types.FLOAT()]), Types.LIST(Types.TUPLE([Types.SHORT()]))]),
        [Row(Row(0.1), [(1,)]), Row(Row(1), [[1], (2,)]), ((0.5,), ((3,),)), Row(None, None), Row(Row(None), [])],
    ),
}


def source(kind: Any, values: list[Any], env: Any) -> Any:
    return env.from_collection(values, kind).map(shown, Types.STRING())


def exchanged(kind: Any, values: list[Any], env: Any) -> Any:
    numbers = env.from_collection(list(range(len(values))), Types.INT())
    return numbers.map(lambda n: values[n], kind).rebalance().map(shown, Types.STRING())


def chained(kind: Any, values: list[Any], env: Any) -> Any:
    numbers = env.from_collection(list(range(len(values))), Types.INT())
    return numbers.map(lambda n: values[n], kind).map(shown, Types.STRING())


def collected(kind: Any, values: list[Any], env: Any) -> Any:
    numbers = env.from_collection(list(range(len(values))), Types.INT())
    return numbers.map(lambda n: values[n], kind)


class ShowKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield shown(ctx.get_current_key())


def key(kind: Any, values: list[Any], env: Any) -> Any:
    numbers = env.from_collection(list(range(len(values))), Types.INT())
    return numbers.key_by(lambda n: values[n], kind).process(ShowKey(), Types.STRING())


class Keep(KeyedProcessFunction):
    """Stores a value for each key, and reads it when all of them are stored."""

    def __init__(self, kind: Any, values: list[Any]) -> None:
        self.kind = kind
        self.values = values

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("kept", self.kind))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        number = value % len(self.values)
        if value < len(self.values):
            self.state.update(self.values[number])
        else:
            yield shown(self.state.value())


def state(kind: Any, values: list[Any], env: Any) -> Any:
    count = len(values)
    numbers = env.from_collection(list(range(2 * count)), Types.INT())
    return numbers.key_by(lambda n: n % count, Types.INT()).process(Keep(kind, values), Types.STRING())


@dataclass(frozen=True)
class Values:
    """Values of one type, which cross one boundary in one program. They are compared one by one."""

    type: str
    way: str
    values: list[Any]

    @property
    def id(self) -> str:
        return f"values-{self.type}-{self.way}"

    def labels(self) -> list[str]:
        return [f"{self.id}: {type(value).__name__} {shown(value)}" for value in self.values]

    def build(self, values: list[Any], env: Any) -> Any:
        return WAYS[self.way](TYPES[self.type][0](), values, env)


#: How values cross a boundary. The way `coded` is not a program: it is PyFlink's serializer of the type alone.
WAYS: dict[str, Callable[[Any, list[Any], Any], Any]] = {
    "source": source,
    "exchanged": exchanged,
    "chained": chained,
    "collected": collected,
    "key": key,
    "state": state,
}
#: Types whose values can be keys.
KEYS = ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "BIG_DEC", "SQL_DATE", "SQL_TIME",
    "SQL_TIMESTAMP", "TUPLE", "ROW", "ROW_NAMED", "LIST", "MAP", "PICKLED")  # fmt: skip
VALUES = [
    Values(name, way, values)
    for name, (_, values) in TYPES.items()
    for way in ("coded", *WAYS)
    if not (way == "key" and name not in KEYS) and not (way == "chained" and name not in ("INT", "DOUBLE", "ROW_NAMED"))
]
