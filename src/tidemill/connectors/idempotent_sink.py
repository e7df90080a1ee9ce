"""Idempotent writes, for systems in which writing a result twice under one key leaves one result.

There is no commit: results are written immediately, and when an epoch is repeated, its results are written under the
same keys. As a consequence, readers see results before their epoch is committed. Until a repeated epoch has caught up,
they may see some of its results together with those of earlier epochs. If functions are not deterministic, a repeated
result may differ.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.connectors.sinks import Sink, SinkWriter, WriterContext
from tidemill.datastream.functions.base import RuntimeContext

__all__ = ["IdempotentSink", "KeyedStore", "RecordPosition"]


@dataclass(frozen=True, order=True)
class RecordPosition:
    """The position of a record in a job's output. It is the same when its epoch is repeated with the same input.

    ``seq`` counts the records of a subtask in an epoch. After a crash of the driver, the epoch may have different input
    if the source has more records by then, or a different parallelism. Records then get different positions, and
    records that the crashed run wrote at positions beyond these remain.
    """

    job_id: str
    operator_uid: str
    history: str
    epoch: int
    subtask: int
    seq: int

    def __str__(self) -> str:
        return f"{self.job_id}/{self.operator_uid}/{self.history}/{self.epoch}/{self.subtask}/{self.seq}"


class KeyedStore(abc.ABC):
    """The store that an idempotent sink writes to; each subtask has its own instance."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once, before the first record."""

    @abc.abstractmethod
    def put(self, entries: list[tuple[Any, Any]]) -> None:
        """Write records under their keys, in this order; an existing record is overwritten."""

    def flush(self) -> None:
        """Called at the end of each epoch; on return everything passed to :meth:`put` must be durable."""

    def close(self) -> None:
        """Release resources."""


class IdempotentSink(Sink):
    """Writes each record under a key: the result of ``key`` or, without it, its :class:`RecordPosition`.

    A key that is derived from the record is better: it stays the same when a job is rescaled, and across jobs.

    >>> class Table(KeyedStore):
    ...     rows = {}
    ...     def put(self, entries):
    ...         self.rows.update(entries)
    >>> class ToTable(IdempotentSink):
    ...     def create_store(self):
    ...         return Table()
    >>> writer = ToTable(key=lambda record: record[0]).create_writer(0, 1)
    >>> writer.begin_epoch(WriterContext("job", "sink", 0, 1, "lineage", 1, "attempt"))
    >>> writer.write([("a", 1), ("b", 1), ("a", 2)], None)
    >>> Table.rows
    {'a': ('a', 2), 'b': ('b', 1)}
    """

    def __init__(self, key: Callable[[Any], Any] | None = None) -> None:
        self.key = key
        if key is not None:
            # Positions guarantee less: after a crash the same epoch may have different input with fewer records, and
            # records written at positions beyond these remain.
            self.guarantee = "effectively-once"

    @abc.abstractmethod
    def create_store(self) -> KeyedStore:
        """Create the store of one subtask."""

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that writes records to the store."""
        return _IdempotentWriter(self.create_store(), self.key)


class _IdempotentWriter(SinkWriter):
    def __init__(self, store: KeyedStore, key: Callable[[Any], Any] | None) -> None:
        self._store = store
        self._key = key
        self._context: WriterContext | None = None
        self._seq = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self._store.open(runtime_context)

    def begin_epoch(self, context: WriterContext) -> None:
        self._context = context
        self._seq = 0

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        key = self._key
        self._store.put([(self._position() if key is None else key(value), value) for value in values])

    def prepare_commit(self) -> tuple[bytes, ...]:
        self._store.flush()
        return ()

    def close(self) -> None:
        self._store.close()

    def _position(self) -> RecordPosition:
        if self._context is None:
            raise RuntimeError("begin_epoch() must be called before the first record")
        place = self._context
        position = RecordPosition(
            place.job_id, place.operator_uid, place.history, place.epoch, place.subtask, self._seq
        )
        self._seq += 1
        return position
