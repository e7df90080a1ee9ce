"""Type hints become types."""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import (  # noqa: UP035 - the older spellings are hints too
    Annotated,
    Any,
    ClassVar,
    Dict,
    List,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Tuple,
    TypeVar,
    Union,
)

import pytest

from tidemill.common import Instant, Row, TypeInformation, Types
from tidemill.common.typeinfo import infer_type_from_hint
from tidemill.python_versions import StrEnum

UserId = NewType("UserId", int)
T = TypeVar("T")
PICKLED = Types.PICKLED_BYTE_ARRAY()


class Level(IntEnum):
    LOW = 1


class Kind(StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


class Point(NamedTuple):
    x: int
    label: str = ""


Untyped = namedtuple("Untyped", ["a"])  # noqa: PYI024 - the untyped form is what is tested


@dataclass
class Order:
    limit: ClassVar[int] = 5
    id: UserId
    point: Point
    note: str | None
    parts: list[Order] = field(default_factory=list)
    parent: Order | None = None


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, Types.LONG()),
        (str, Types.STRING()),
        (float, Types.DOUBLE()),
        (bool, Types.BOOLEAN()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (Decimal, Types.BIG_DEC()),
        (Instant, Types.INSTANT()),
        (dt.date, Types.SQL_DATE()),
        (dt.time, Types.SQL_TIME()),
        (dt.datetime, Types.SQL_TIMESTAMP()),
        (tuple[int, str], Types.TUPLE([Types.LONG(), Types.STRING()])),
        (Tuple[int, List[str]], Types.TUPLE([Types.LONG(), Types.LIST(Types.STRING())])),  # noqa: UP006
        (tuple[()], PICKLED),
        (list[int], Types.LIST(Types.LONG())),
        (dict[str, float], Types.MAP(Types.STRING(), Types.DOUBLE())),
        (Dict[str, Any], Types.MAP(Types.STRING(), PICKLED)),  # noqa: UP006
        (Optional[int], Types.OPTIONAL(Types.LONG())),  # noqa: UP045
        (int | None, Types.OPTIONAL(Types.LONG())),
        (str | None, Types.STRING()),
        (Union[int, str], PICKLED),  # noqa: UP007
        (Level, Types.ENUM(Level)),
        (Kind, Types.ENUM(Kind)),
        (Point, Types.NAMED_TUPLE(Point)),
        (Untyped, Types.NAMED_TUPLE(Untyped)),
        (Order, Types.DATACLASS(Order)),
        (UserId, Types.LONG()),
        (Annotated[int, "unit"], Types.LONG()),
        (Literal["a", "b"], Types.STRING()),
        (Literal["a", 1], PICKLED),
        (Text, PICKLED),
        (tuple[int, ...], PICKLED),
        (tuple, PICKLED),
        (list, PICKLED),
        (set[int], PICKLED),
        (Sequence[int], PICKLED),
        (Row, PICKLED),
        (Any, PICKLED),
        (T, PICKLED),
        (None, PICKLED),
        ("int", PICKLED),
        ([int], PICKLED),
        (object, PICKLED),
        (dt.timedelta, PICKLED),
    ],
    ids=str,
)
def test_hints(hint: Any, expected: TypeInformation) -> None:
    assert infer_type_from_hint(hint) == expected


def test_fields_of_classes_come_from_their_hints() -> None:
    order = Types.DATACLASS(Order)
    assert dict(zip(order.get_field_names(), order.get_field_types(), strict=True)) == {
        "id": Types.LONG(),
        "point": Types.NAMED_TUPLE(Point),
        "note": Types.STRING(),
        "parts": Types.LIST(PICKLED),  # a class inside itself is pickled
        "parent": PICKLED,
    }
    assert Types.NAMED_TUPLE(Untyped).get_field_types() == [PICKLED]
    inner = Order(UserId(1), Point(1, "a"), None)
    order.validate(Order(UserId(2), Point(2), "n", [inner], inner))


def test_hints_that_cannot_be_evaluated_mean_pickled() -> None:
    @dataclass
    class Broken:
        a: NoSuchName  # type: ignore[name-defined]  # noqa: F821

    assert Types.DATACLASS(Broken).get_field_types() == [PICKLED]
