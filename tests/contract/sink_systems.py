"""Systems that sinks under test write to: in this process, known by name, so that copies of a sink share them."""

from __future__ import annotations

import itertools
import pickle
from typing import Any, Final

from tidemill.connectors.idempotent_sink import IdempotentSink, KeyedStore
from tidemill.connectors.two_phase_commit import TwoPhaseCommitSinkFunction
from tidemill.connectors.write_ahead_log import Delivery, Destination, Mark, WriteAheadLogSink
from tidemill.datastream.functions.basic import SinkFunction

_SYSTEMS: Final[dict[str, System]] = {}


class System:
    """What is visible, what is prepared, and what has been noted: in one, as in a database."""

    def __init__(self, name: str) -> None:
        self.rows: list[Any] = []
        self.keyed: dict[Any, Any] = {}
        self.prepared: dict[str, list[Any]] = {}
        self.marks: dict[tuple[str, str, int], str] = {}
        _SYSTEMS[name] = self


def system(name: str) -> System:
    return _SYSTEMS[name]


# --- write-ahead log


class TableSink(WriteAheadLogSink):
    """Rows and marks in one transaction."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_destination(self) -> Destination:
        return Table(self.name)


class Table(Destination):
    def __init__(self, name: str) -> None:
        self.name = name

    def deliver(self, delivery: Delivery) -> None:
        database = system(self.name)
        place = (delivery.job_id, delivery.operator_uid, delivery.subtask)
        stored = database.marks.get(place)
        if not delivery.covered_by(None if stored is None else Mark.from_text(stored)):
            database.rows += [value for batch in delivery.batches() for value in pickle.loads(batch)]
            database.marks[place] = delivery.mark.to_text()


# --- two phases, in Flink's older form


class Transactions(TwoPhaseCommitSinkFunction[str]):
    """Transactions have numbers of their own."""

    numbers = itertools.count()

    def __init__(self, name: str) -> None:
        self.name = name

    def begin_transaction(self) -> str:
        transaction = f"t{next(self.numbers)}"
        system(self.name).prepared[transaction] = []
        return transaction

    def invoke(self, transaction: str, value: Any, context: SinkFunction.Context) -> None:
        system(self.name).prepared[transaction].append(value)

    def pre_commit(self, transaction: str) -> None:
        pass

    def commit(self, transaction: str) -> None:
        system(self.name).rows += system(self.name).prepared.pop(transaction, [])

    def abort(self, transaction: str) -> None:
        system(self.name).prepared.pop(transaction, None)


# --- idempotent


class KeyedSink(IdempotentSink):
    """Rows by key."""

    def __init__(self, name: str, *, by_record: bool) -> None:
        super().__init__(key=_itself if by_record else None)
        self.name = name

    def create_store(self) -> KeyedStore:
        return KeyedTable(self.name)


def _itself(record: Any) -> Any:
    return record


class KeyedTable(KeyedStore):
    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: list[tuple[Any, Any]] = []

    def put(self, entries: list[tuple[Any, Any]]) -> None:
        self.waiting += entries

    def flush(self) -> None:
        system(self.name).keyed.update(self.waiting)
        self.waiting = []


# --- at least once


class Appending(SinkFunction):
    """Writes each record at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        system(self.name).rows.append(value)
