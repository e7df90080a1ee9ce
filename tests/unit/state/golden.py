"""State files that every later version must read: what is in them, and how they were written.

``python -m tests.unit.state.golden`` writes the files that are missing in ``fixtures``. One that is there is never
written again: it stands for what an earlier version left on disk. A change of the format adds files, with new names.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.contract.keyed_state import States
from tests.unit.state.backends import make_backend
from tidemill.common import Instant, Row, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.types import RowKind
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.state.files.state_file import Section, encode_sections
from tidemill.state.keyed.backend import KeyedStateBackend

FIXTURES = Path(__file__).parent / "fixtures"
T = Types


class Color(Enum):
    RED = 1
    BLUE = 2


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Place:
    city: str
    floor: int = 0


class Pair(NamedTuple):
    left: str
    right: int = 7


#: State name -> its type and its value under the key "k".
TYPED: dict[str, tuple[TypeInformation, Any]] = {
    "string": (T.STRING(), "Wörter"),
    "surrogate": (T.STRING(), "\udc80"),
    "byte": (T.BYTE(), -128),
    "boolean": (T.BOOLEAN(), True),
    "short": (T.SHORT(), 2**15 - 1),
    "int": (T.INT(), -(2**31)),
    "long": (T.LONG(), 2**63 - 1),
    "float": (T.FLOAT(), 1.5),
    "double": (T.DOUBLE(), -0.1),
    "char": (T.CHAR(), "x"),
    "small big int": (T.BIG_INT(), 5),
    "big int": (T.BIG_INT(), -(2**100)),
    "big dec": (T.BIG_DEC(), Decimal("12.30")),
    "instant": (T.INSTANT(), Instant(5, 7)),
    "date": (T.SQL_DATE(), dt.date(2026, 1, 31)),
    "time": (T.SQL_TIME(), dt.time(12, 30, 1, 5)),
    "timestamp": (T.SQL_TIMESTAMP(), dt.datetime(2026, 1, 31, 12, 0, 0, 1)),  # noqa: DTZ001 - it has no zone
    "zoned timestamp": (T.SQL_TIMESTAMP(), dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)),
    "row": (T.ROW([T.INT(), T.STRING()]), Row(1, "a")),
    "named row": (T.ROW_NAMED(["a", "b"], [T.INT(), T.STRING()]), Row.of_kind(RowKind.DELETE, a=1, b=None)),
    "tuple": (T.TUPLE([T.INT(), T.BOOLEAN()]), (1, False)),
    "bytes": (T.PRIMITIVE_ARRAY(T.BYTE()), b"\x00\xff"),
    "primitive array": (T.PRIMITIVE_ARRAY(T.INT()), [1, 2]),
    "basic array": (T.BASIC_ARRAY(T.STRING()), ["a", None]),
    "object array": (T.OBJECT_ARRAY(T.TUPLE([T.INT()])), [(1,), None]),
    "map": (T.MAP(T.STRING(), T.LONG()), {"a": 1, "b": None}),
    "list": (T.LIST(T.DOUBLE()), [1.0, 2.0]),
    "optional": (T.TUPLE([T.OPTIONAL(T.LONG())]), (None,)),
    "dataclass": (T.DATACLASS(Place), Place("here", 3)),
    "named tuple": (T.NAMED_TUPLE(Pair), Pair("x", 3)),
    "enum": (T.ENUM(Color), Color.BLUE),
    "flag": (T.ENUM(Access), Access.READ | Access.WRITE),
}

#: Keys, and values of undeclared types; some of them have no other form than a pickle.
UNTYPED: dict[Any, Any] = {
    "int": 5,
    7: "seven",
    2.5: [1, "mixed", None, {"a": (1, 2)}],
    None: {1, 2},
    b"bytes": frozenset({"x"}),
    (1, "tuple"): Place("x"),
    Pair("a", 1): Color.RED,
    Place("key"): Row(a=1),
    Color.BLUE: dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    dt.date(2026, 1, 1): dt.timedelta(days=1, microseconds=1),
    Decimal("1.5"): range(3),
    True: complex(1, 2),
}


def typed() -> list[Section]:
    backend = make_backend(key_type=T.STRING())
    for name, (type_info, value) in TYPED.items():
        state = backend.value_state(ValueStateDescriptor(name, type_info))
        backend.context.key = "k"
        state.update(value)
    return backend.export_delta()


def untyped() -> list[Section]:
    backend = make_backend()
    state = backend.value_state(ValueStateDescriptor("v"))
    for key, value in UNTYPED.items():
        backend.context.key = key
        state.update(value)
    return backend.export_delta()


def first_epoch(states: States) -> None:
    """What ``kinds-1`` holds: puts and appends, namespaces, timers."""
    for key in ("a", "b"):
        states.at(key).value.update(1)
        states.list.add_all([1, 2])
        states.map.put("x", 1)
        states.map.put("y", 2)
        states.reducing.add(5)
        states.aggregating.add("p")
        states.at(key, (0, 10)).list.add("in a window")
        states.backend.event_timers.register(10, key, (0, 10))
        states.backend.processing_timers.register(20, key)


def second_epoch(states: States) -> None:
    """What ``kinds-2`` holds on top of it: appends, tombstones, a cleared map, deleted timers."""
    states.at("a").value.clear()
    states.list.add(3)
    states.map.remove("x")
    states.map.put("z", 3)
    states.reducing.add(6)
    states.aggregating.add("q")
    states.at("b").list.clear()
    states.map.clear()
    states.map.put("n", 9)
    states.at("b", (0, 10)).list.clear()
    states.backend.event_timers.delete(10, "b", (0, 10))
    states.backend.processing_timers.register(30, "b")


def kinds(epochs: int) -> Callable[[], list[Section]]:
    def write() -> list[Section]:
        states = States(make_backend())
        sections = []
        for epoch in (first_epoch, second_epoch)[:epochs]:
            epoch(states)
            sections = states.backend.export_delta()
            states.backend.fold()
            states.backend.begin_epoch()
        return sections

    return write


def in_blocks() -> bytes:
    """Sections of several blocks, compressed."""
    backend = make_backend(key_type=T.LONG())
    fill(backend)
    return encode_sections(backend.export_delta(), compression="zstd", block_bytes=2000)[0]


def fill(backend: KeyedStateBackend) -> None:
    state = backend.value_state(ValueStateDescriptor("n", T.LONG()))
    for key in range(500):
        backend.context.key = key
        state.update(key * key)


FILES: dict[str, Callable[[], bytes]] = {
    "typed-1.tms": lambda: encode_sections(typed())[0],
    "untyped-1.tms": lambda: encode_sections(untyped())[0],
    "kinds-1-1.tms": lambda: encode_sections(kinds(1)())[0],
    "kinds-2-1.tms": lambda: encode_sections(kinds(2)())[0],
    "blocks-1.tms": in_blocks,
}


def main() -> None:
    FIXTURES.mkdir(exist_ok=True)
    for name, make in FILES.items():
        if not (FIXTURES / name).exists():
            (FIXTURES / name).write_bytes(make())


if __name__ == "__main__":
    # Under its own name, so that the classes above are found again by it.
    from tests.unit.state import golden

    golden.main()
