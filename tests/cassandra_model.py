"""A model of Cassandra's Python driver and of a node, in this process: one table per statement, the latest write wins.

It has the calls that the connector makes, with the arguments of the real driver, and no others.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

UNSET: Final = object()
_INSERT: Final = re.compile(r"INSERT INTO ([\w.]+) \(([^)]*)\) VALUES")
_MODELS: Final[dict[str, Model]] = {}


class DriverError(Exception):
    pass


class TimedOutError(DriverError):
    pass


class InvalidError(Exception):
    pass


class NothingLikeItError(Exception):
    """Stands for kinds of failures that the model does not have."""


class Model:
    """A node; sinks reach it by its name, from wherever they are."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: By table and primary key, which is the first column: the columns with the timestamps of their last writes.
        self.tables: dict[str, dict[Any, dict[str, tuple[int, Any]]]] = {}
        #: Called with each record before it is written; what it returns is the failure of the request.
        self.fails: Callable[[Mapping[str, Any]], Exception | None] = lambda columns: None
        self.levels: set[Any] = set()
        self.open = 0
        self.most_waiting = 0
        self.waiting = 0
        _MODELS[name] = self

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [{name: value for name, (_, value) in row.items()} for row in self.tables.get(table, {}).values()]

    def write(self, table: str, columns: Mapping[str, Any], timestamp: int) -> None:
        row = self.tables.setdefault(table, {}).setdefault(next(iter(columns.values())), {})
        for name, value in columns.items():
            if value is not UNSET and timestamp >= row.get(name, (-1, None))[0]:
                row[name] = (timestamp, value)


def cluster_of(name: str) -> Cluster:
    """What a cluster builder's function returns."""
    return Cluster(_MODELS[name])


class Cluster:
    def __init__(self, model: Model) -> None:
        self._model = model

    def connect(self, keyspace: str | None) -> Session:
        if keyspace == "none":
            raise InvalidError("Keyspace 'none' does not exist")
        self._model.open += 1
        return Session(self._model)

    def shutdown(self) -> None:
        self._model.open -= 1


class Session:
    _ticks = itertools.count(1 << 50)

    def __init__(self, model: Model) -> None:
        self._model = model
        self.timestamp_generator: Callable[[], int] = lambda: next(self._ticks)

    def prepare(self, query: str) -> Statement:
        found = _INSERT.match(query)
        if found is None:
            raise InvalidError("line 1:0 no viable alternative at input")
        return Statement(found[1], [name.strip() for name in found[2].split(",")])

    def execute_async(self, bound: Bound, *, timeout: float) -> Future:
        self._model.waiting += 1
        self._model.most_waiting = max(self._model.most_waiting, self._model.waiting)
        self._model.levels.add(bound.statement.consistency_level)
        return Future(self._model, bound, self.timestamp_generator())

    def execute(self, statement: str, values: Sequence[Any] | None, *, timeout: float) -> Any:
        table = statement.split()[2 if statement.startswith("INSERT") else 3]
        if statement.startswith("INSERT"):
            assert values is not None
            self._model.write(table, dict(zip(("sink", "mark"), values, strict=True)), next(self._ticks))
        elif statement.startswith("SELECT"):
            assert values is not None
            rows = [row for row in self._model.rows(table) if row["sink"] == values[0]]
            return SimpleNamespace(one=lambda: SimpleNamespace(mark=rows[0]["mark"]) if rows else None)
        else:
            assert statement.startswith("CREATE")
        return None


class Statement:
    def __init__(self, table: str, columns: Sequence[str]) -> None:
        self.table = table
        self.columns = columns
        self.consistency_level: Any = None

    def bind(self, values: Any) -> Bound:
        if isinstance(values, Mapping):
            return Bound(self, {name: values[name] for name in self.columns})
        if len(values) > len(self.columns):
            raise ValueError(f"Too many arguments provided to bind() (got {len(values)}, expected {len(self.columns)})")
        return Bound(self, dict(zip(self.columns, values, strict=True)))


class Bound:
    def __init__(self, statement: Statement, columns: Mapping[str, Any]) -> None:
        self.statement = statement
        self.columns = columns


class Future:
    def __init__(self, model: Model, bound: Bound, timestamp: int) -> None:
        self._model = model
        self._error = model.fails(bound.columns)
        if self._error is None:
            model.write(bound.statement.table, bound.columns, timestamp)

    def result(self) -> None:
        self._model.waiting -= 1
        if self._error is not None:
            raise self._error


def library(module: str) -> Any:
    """What an import of one of the driver's modules gives."""
    other = NothingLikeItError
    return {
        "cassandra": SimpleNamespace(
            DriverException=DriverError,
            RequestExecutionException=other,
            InvalidRequest=InvalidError,
            Timeout=other,
            Unavailable=other,
            OperationTimedOut=TimedOutError,
            ConsistencyLevel=SimpleNamespace(QUORUM="quorum"),
        ),
        "cassandra.cluster": SimpleNamespace(NoHostAvailable=other),
        "cassandra.protocol": SimpleNamespace(OverloadedErrorMessage=other, IsBootstrappingErrorMessage=other),
        "cassandra.connection": SimpleNamespace(ConnectionException=other),
        "cassandra.query": SimpleNamespace(UNSET_VALUE=UNSET),
    }[module]
