"""A4: what can be a key. Equal keys meet in one place, wherever the records come from."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from typing import Any, NamedTuple

from tests.semantics.case import Case
from tidemill.common import Types
from tidemill.datastream import DataStream, StreamExecutionEnvironment

Env = StreamExecutionEnvironment


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Place:
    city: str
    zip: int


class Point(NamedTuple):
    x: int
    y: int


NAN = float("nan")
LONG = "k" * 100_000

KEYS: dict[str, list[Any]] = {
    "ints": [0, 1, -1, 2**40, -(2**63), 2**70],
    "bools": [True, False],
    "strings": ["", "a", "ä", "\U0001f600", "\0"],
    "tuples": [(), (1,), ("a", 1), ("a", (1, None)), ("a", 1.5)],
    "none": [None, 0, ""],
    "floats": [0.0, -0.0, 1.5, float("inf"), NAN, float("nan"), -1.5],
    "nan-in-tuples": [("a", NAN), ("a", float("nan")), ("a", 1.0)],
    "bytes": [b"", b"a", b"\x00\xff"],
    "enums": [Color.RED, Color.BLUE, Level.LOW, Level.HIGH],
    "dataclasses": [Place("here", 1), Place("here", 2), Place("there", 1)],
    "named-tuples": [Point(1, 2), Point(2, 1)],
    "long-strings": [LONG, LONG + "x"],
    "dates": [dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.timezone.utc), dt.timedelta(1)],
    "decimals": [decimal.Decimal("1.10"), decimal.Decimal("1.1"), decimal.Decimal("NaN")],
    "uuids": [uuid.UUID(int=1), uuid.UUID(int=2)],
    "mixed": [1, "1", b"1", (1,), None, 1.5, Color.RED],
    "equal-numbers": [1, 1.0, True, 2, 2.0],
}


def _is_nan(key: Any) -> bool:
    return isinstance(key, (float, decimal.Decimal)) and key != key


def _same(key: Any) -> Any:
    """A form in which equal keys are equal, NaN included."""
    if _is_nan(key):
        return ("nan", type(key).__name__)
    return tuple(map(_same, key)) if type(key) is tuple else key


def expected(keys: list[Any]) -> list[Any]:
    counts: dict[Any, int] = {}
    result = []
    for _ in range(3):
        for position, key in enumerate(keys):
            counts[_same(key)] = counts.get(_same(key), 0) + 1
            result.append((position, counts[_same(key)]))
    return result


def count(value: Any, seen: int | None) -> tuple[Any, int]:
    return (value[1], (seen or 0) + 1), (seen or 0) + 1


def by_selector(keys: list[Any]) -> Any:
    def build(env: Env) -> DataStream:
        records = [(key, position) for _ in range(3) for position, key in enumerate(keys)]
        return env.from_collection(records).key_by(lambda r: r[0]).map_with_state(count)

    return build


def by_position(keys: list[Any]) -> Any:
    def build(env: Env) -> DataStream:
        records = [(key, position) for _ in range(3) for position, key in enumerate(keys)]
        return env.from_collection(records).key_by(0).map_with_state(count, state_type=Types.LONG())

    return build


_ON_SPARK = {"floats", "enums", "dataclasses", "tuples", "none"}

CASES = [
    *(
        Case(f"keys-{name}", by_selector(keys), expected(keys), lambda r: r[0], spark=name in _ON_SPARK)
        for name, keys in KEYS.items()
    ),
    *(
        Case(f"keys-{name}-by-position", by_position(keys), expected(keys), lambda r: r[0])
        for name, keys in KEYS.items()
    ),
]
