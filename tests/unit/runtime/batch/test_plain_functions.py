from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pytest

from tidemill.common import Row
from tidemill.runtime.batch.plain_functions import keeps_nothing

SEEN: list[Any] = []
LIMIT = 7


@dataclass
class Event:
    n: int
    more: list[int] = field(default_factory=list)


@dataclass
class Registered:
    n: int

    def __post_init__(self) -> None:
        SEEN.append(self)


def helper(value: Any) -> Any:
    return value + LIMIT


def remembering(value: Any) -> Any:
    SEEN.append(value)
    return value


def through_helper(value: Any) -> Any:
    return [helper(part) for part in value]


def through_remembering(value: Any) -> Any:
    return remembering(value)


def yielding(value: Any) -> Iterator[Any]:
    yield value


def with_default(value: Any, seen: list[Any] = SEEN) -> Any:
    return value


def counting() -> Callable[[Any], Any]:
    count = 0

    def counted(value: Any) -> Any:
        nonlocal count
        count += 1
        return value

    return counted


def multiplied_by(factor: Any) -> Callable[[Any], Any]:
    return lambda value: value * factor


def importing(value: Any) -> Any:
    from tidemill.common import types

    return types


class Methods:
    def __init__(self) -> None:
        self.last: Any = None

    def new(self, value: Any) -> Any:
        value["n"] = 1
        return value

    def kept(self, value: Any) -> Any:
        self.last = value
        return value

    def captured(self, value: Any) -> Any:
        return [self.last for _ in value]

    def __call__(self, value: Any) -> Any:
        return value


PLAIN: dict[str, Callable[[Any], Any]] = {
    "parts": lambda v: (v[0], v[1] * 3 + 1),
    "dict": lambda v: {"k": v[0], "more": [v[1]]},
    "methods": lambda line: line.lower().split(","),
    "row": lambda v: Row(k=v[0]),
    "in place": lambda event: event.update(n=1) or event,
    "helper": through_helper,
    "dataclass": lambda v: Event(v + 1),
    "parsed": lambda line: json.loads(line)["event"],
    "constant": lambda v: v + LIMIT,
    "closure": multiplied_by(3),
    "built in": str,
    "bound": Methods().new,
}
OTHERS: dict[str, Any] = {
    "global list": lambda v: SEEN,
    "global list, changed": remembering,
    "through a function": through_remembering,
    "generator": yielding,
    "default": with_default,
    "closure": multiplied_by([]),
    "nonlocal": counting(),
    "class that registers": lambda v: Registered(v + 1),
    "import": importing,
    "self": Methods().kept,
    "self in a comprehension": Methods().captured,
    "callable object": Methods(),
    "getattr": lambda v: getattr(v, "x"),  # noqa: B009
    "type": lambda v: type(v).seen,
    "unknown": lambda v: nowhere(v + 1),  # type: ignore[name-defined]  # noqa: F821
}


@pytest.mark.parametrize("name", PLAIN)
def test_functions_that_keep_nothing(name: str) -> None:
    assert keeps_nothing(PLAIN[name])
    assert keeps_nothing(pickle.loads(cloudpickle.dumps(PLAIN[name])))


@pytest.mark.parametrize("name", OTHERS)
def test_functions_that_may_keep_what_they_return(name: str) -> None:
    assert not keeps_nothing(OTHERS[name])
