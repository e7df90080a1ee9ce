"""What a case of the semantics suite is: a program, and what must come out of it on every engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tidemill.datastream import DataStream, StreamExecutionEnvironment


@dataclass(frozen=True)
class Case:
    """A program over bounded sources.

    ``expected`` is a multiset; with ``key`` the records of one key must also come in the order of ``expected``.
    ``spark`` marks the subset that also runs on Spark. ``mode`` is the execution mode. What comes out must not depend
    on where epochs end, on parallelism, or on which worker runs what.
    """

    id: str
    build: Callable[[StreamExecutionEnvironment], DataStream]
    expected: list[Any]
    key: Callable[[Any], Any] | None = None
    mode: str = "STREAMING"
    spark: bool = False


@dataclass(frozen=True)
class BadCase:
    """A program that must fail: with which error, and what its message must say."""

    id: str
    build: Callable[[StreamExecutionEnvironment], DataStream]
    error: type[Exception]
    says: tuple[str, ...]
    spark: bool = False


def check(case: Case, output: Iterable[Any]) -> None:
    """Compare what came out with what was expected."""
    found = list(output)
    assert Counter(map(shown, found)) == Counter(map(shown, case.expected))
    if case.key is not None:
        assert in_order(case.key, found) == in_order(case.key, case.expected)


def in_order(key: Callable[[Any], Any], records: Iterable[Any]) -> dict[str, list[str]]:
    """The records of each key, in their order."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(shown(key(record)), []).append(shown(record))
    return found


def shown(value: Any) -> str:
    """A text that is equal for equal records: NaN equals itself here, and 0.0 equals -0.0."""
    if isinstance(value, float) and value == 0.0:
        return "0.0"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    return repr(value)
