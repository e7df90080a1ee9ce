"""The state of operators: lists of states, entries, and single values."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class StateOfOperator(TypedDict):
    """A state: ``rows`` and ``bytes`` are those in storage, ``entries`` is the number of committed ones, if known."""

    id: str
    name: str
    kind: str
    types: dict[str, str]
    rows: int
    bytes: int
    entries: int | None


OperatorWithState = TypedDict(
    "OperatorWithState",
    {
        "id": str,
        "uid": str,
        "name": str,
        "keyed": bool,
        "timers": int,
        "states": list[StateOfOperator],
        "operator-states": list[StateOfOperator],
    },
)


class StateList(TypedDict):
    """The operators that have state in an epoch, and their states."""

    epoch: int
    operators: list[OperatorWithState]


class QueryableNames(TypedDict):
    """The states of a job that can be queried by name."""

    epoch: int
    names: list[str]


class QueryableValue(TypedDict):
    """The value of a key in an epoch: a list for list state, an object or a list of pairs for map state."""

    epoch: int
    name: str
    value: Any


class StatePage(TypedDict):
    """Some entries of a state in an epoch. ``next`` is the position of the next page, None if there is none."""

    epoch: int
    uid: str
    state: str
    kind: str
    entries: list[dict[str, Any]]
    next: str | None


StateDifference = TypedDict(
    "StateDifference",
    {
        "from": int,
        "to": int,
        "uid": str,
        "state": str,
        "changes": list[dict[str, Any]],
        "next": str | None,
    },
)
