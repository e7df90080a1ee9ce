"""A source as Spark reads one: in each epoch rows are dealt out to any number of tasks, which have nothing lasting."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemill.common import Types
from tidemill.connectors.sources import ClockOf, Position, Split, SplitEnumerator, SplitSource
from tidemill.errors import GraphError
from tidemill.runtime.batch.columns import FILE_COLUMN
from tidemill.testing import JobHarness

#: (name, event time, partition)
Row = tuple[str, int, str]
#: The rows of one epoch, by task.
Tasks = Sequence[Sequence[Row]]

SCHEMA = pa.schema([("name", pa.string()), ("at", pa.int64()), ("topic", pa.string()), ("part", pa.string())])


class Dealt:
    """The input, epoch by epoch; it outlives restarts."""

    def __init__(self) -> None:
        self.epochs: list[Tasks] = []
        self.ended = False

    def run(self, job: JobHarness, *tasks: Sequence[Row], clock: int | None = None) -> list[Any]:
        """Run one epoch in which each task reads these rows; gives what came out."""
        before = len(job.output())
        if clock is not None:
            job.set_processing_time(clock)
        self.epochs.append(tasks)
        job.rescale({"dealt": max(1, len(tasks))})
        job.epoch()
        return job.output()[before:]


class DealtSource(SplitSource):
    """Reads :class:`Dealt` as columns, a record batch for every two rows; rows name their partition if asked to.

    With ``files`` that is a file: rows of one task tell which, but nothing of it lasts.
    """

    bounded = True
    type_info = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING(), Types.STRING()])

    def __init__(self, dealt: Dealt | None, partition_by: tuple[str, ...] = (), files: bool = False) -> None:
        self._dealt = dealt
        self.partition_by = partition_by
        self._files = files

    @property
    def clock_of(self) -> ClockOf:
        return ClockOf.PARTITION if self.partition_by else ClockOf.SOURCE

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        if self._dealt is None:
            raise GraphError("what is dealt out stays on the driver")
        return _Tasks(self._dealt, position or 0)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = [(name, at, "t", part) for name, at, part in split.payload]
        for start in range(0, len(rows), 2):
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows[start : start + 2], strict=True), SCHEMA, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
            if self._files:
                numbers = [zlib.crc32(row[3].encode()) for row in rows[start : start + 2]]
                batch = batch.append_column(FILE_COLUMN, pa.array(numbers, pa.int64()))
            yield batch

    def __reduce__(self) -> tuple[Any, ...]:
        return (DealtSource, (None, self.partition_by, self._files))


class _Tasks(SplitEnumerator):
    def __init__(self, dealt: Dealt, start: int) -> None:
        self._dealt = dealt
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        if not self.available():
            return []
        tasks = self._dealt.epochs[self._next]
        self._next += 1
        return [Split(rows, len(rows)) for rows in tasks]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._dealt.ended and not self.available()

    def available(self) -> bool:
        return self._next < len(self._dealt.epochs)
