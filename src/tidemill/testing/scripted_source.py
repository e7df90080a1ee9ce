"""A source whose input is defined by a test: one list of records per epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.errors import GraphError


class Script:
    """The input of a source, epoch by epoch. It survives restarts of the job, like a message log."""

    def __init__(self) -> None:
        self.epochs: list[list[Any]] = []
        self.ended = False

    def add(self, records: Sequence[Any]) -> None:
        """Add the records of one more epoch."""
        self.epochs.append(list(records))


class ScriptedSource(SplitSource):
    """Reads a :class:`Script`. A position is the number of epochs read. Subtasks get the records in turn."""

    bounded = True
    replayable = True

    def __init__(self, script: Script | None, parallelism: int | None = 1) -> None:
        self._script = script
        self.parallelism = parallelism

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that starts after a number of epochs."""
        if self._script is None:
            raise GraphError("a script is only available on the driver")
        return _ScriptEnumerator(self._script, 0 if position is None else int(position))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Return the records in the split."""
        yield RecordBatch(split.payload)

    def __reduce__(self) -> tuple[Any, ...]:
        return (ScriptedSource, (None, self.parallelism))


class _ScriptEnumerator(SplitEnumerator):
    def __init__(self, script: Script, start: int) -> None:
        self._script = script
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        if not self.available():
            return []
        records = self._script.epochs[self._next]
        self._next += 1
        dealt = [records[subtask::parallelism] for subtask in range(parallelism)]
        return [Split(part, len(part)) for part in dealt]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._script.ended and not self.available()

    def available(self) -> bool:
        return self._next < len(self._script.epochs)

    def pending_records(self) -> int:
        return sum(map(len, self._script.epochs[self._next :]))
