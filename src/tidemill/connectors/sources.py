"""What a source is to the engine: something that hands out splits on the driver and reads them on workers.

Two families. A :class:`SplitSource` is plain Python: the driver asks its enumerator for the splits of the next epoch,
workers read them; its position is JSON in the manifest. A Spark source (``from_dataframe``, file formats, Kafka) is
described here too but turned into a DataFrame by ``tidemill.spark``; Spark's own offsets are its position.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tidemill.common.typeinfo import TypeInformation

#: A position must survive JSON: it is stored in the manifest verbatim.
Position = Any


@dataclass(frozen=True)
class RecordBatch:
    """Records as a source hands them out: values and, where the source knows them, their event timestamps (ms)."""

    values: list[Any]
    timestamps: list[int] | None = None


@dataclass(frozen=True)
class MadeRecords:
    """Records that user code makes one by one. Each is taken as it is made: the code may fill one object again."""

    values: Iterator[Any]


@dataclass(frozen=True)
class Split:
    """A piece of input for one subtask and one epoch; ``payload`` is pickled to the worker that reads it.

    ``partition`` names the lasting part of the source that the records are from (a partition of a topic, a file that
    grows). Each has event time of its own, and the slowest counts; a split of no records makes one known before its
    first record comes. With ``last`` nothing of it comes any more, and it holds nobody back. Without a name all splits
    of a subtask have one event time. ``watermark`` is what is known of a partition's event time before it is read.
    """

    payload: Any
    records: int
    partition: str | None = None
    last: bool = False
    watermark: int | None = None


class ClockOf(Enum):
    """What has event time of its own in a source.

    ``SUBTASK``: each subtask, or each partition that its splits name. Who reads a partition goes on reading it.

    ``SOURCE``: the source as a whole. Who reads what is decided anew in every epoch, so that subtasks have nothing of
    their own. Within an epoch each file that a task reads has a time, and the slowest that is not read to its end
    counts; at the end of the epoch it is the furthest.

    ``PARTITION``: each partition, as the rows or splits name it. Who reads which is decided anew in every epoch. The
    slowest partition counts.
    """

    SUBTASK = "subtask"
    SOURCE = "source"
    PARTITION = "partition"


class Source(abc.ABC):  # noqa: B024 - two families share it
    """Base of all sources."""

    #: Whether the source ends by itself.
    bounded: bool = True
    #: Whether the same position always yields the same records again.
    replayable: bool = True

    @property
    def clock_of(self) -> ClockOf:
        """What has event time of its own."""
        return ClockOf.SUBTASK


class SplitEnumerator(abc.ABC):
    """Driver side of a :class:`SplitSource`; one per job run, created from the last committed position."""

    @abc.abstractmethod
    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split | Sequence[Split]]:
        """The splits of the next epoch, for at most ``parallelism`` subtasks with about ``max_records`` records in all.

        Entry i, a split or several, is read by subtask i. Moves the position on; the driver stores :meth:`position`
        with the epoch and makes a new enumerator from the last committed one after a failure.
        """

    @abc.abstractmethod
    def position(self) -> Position:
        """Where the next epoch begins, as plain JSON data."""

    @property
    @abc.abstractmethod
    def finished(self) -> bool:
        """Whether no split will ever come again (always False for an unbounded source)."""

    def available(self) -> bool:
        """Whether :meth:`next_splits` would return something now. Unbounded sources override this."""
        return not self.finished

    def pending_records(self) -> int | None:
        """How many records wait to be read now, None if nobody knows: the lag of the source. Must not take long."""
        return None

    def close(self) -> None:
        """Release what the enumerator holds."""


class SplitSource(Source):
    """A source read in plain Python."""

    @abc.abstractmethod
    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """An enumerator that begins at a stored position, or at the start."""

    @abc.abstractmethod
    def read(self, split: Split) -> Iterator[Any]:
        """Read one split on a worker: yields :class:`RecordBatch`, :class:`MadeRecords`, or Arrow record batches.

        The same split always yields the same records if the source is replayable. Arrow batches stay columns as long
        as nobody needs Python objects; the attribute ``type_info`` says what their rows become (tuples, rows or, of a
        single column, its values).
        """

    #: None: runs with the environment's parallelism; a number fixes it (1 for a collection, as in Flink).
    parallelism: int | None = None
    #: Whether the last split of each partition says so (:attr:`Split.last`). Until then there is more of it to be read,
    #: so that it is never idle, however long other partitions are read meanwhile.
    tells_ends: bool = False


class RowDecoder(abc.ABC):
    """Turns rows that Spark has read into records, on the workers: for sources whose records are bytes in a column."""

    @abc.abstractmethod
    def decode(self, rows: Any) -> RecordBatch:
        """The records of an Arrow batch, in order. Fewer than there are rows, if some are to be skipped."""


class SparkSource(Source):
    """A source that Spark reads, and whose position is Spark's."""

    #: The type of the records, where it is known.
    type_info: TypeInformation | None = None
    #: The columns that name the lasting part of the source that a row is from.
    partition_by: tuple[str, ...] = ()
    #: What makes records of rows; without one a row is a record.
    decoder: RowDecoder | None = None

    @property
    def ends(self) -> bool:
        """Whether there is an end of what is read, also if it is not to be taken for a bounded source."""
        return self.bounded

    @property
    def clock_of(self) -> ClockOf:
        return ClockOf.PARTITION if self.partition_by else ClockOf.SOURCE


@dataclass(frozen=True)
class DataFrameSource(SparkSource):
    """Any Spark DataFrame, batch or streaming. Records are :class:`Row`, or tuples when the type says so.

    The columns ``partition_by`` name the lasting part of the source that a row is from, as those of Kafka's topic and
    partition do.
    """

    dataframe: Any
    type_info: TypeInformation | None = None
    bounded: bool = True
    partition_by: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # The DataFrame lives on the driver; a worker needs to know only how to shape records.
        return (DataFrameSource, (None, self.type_info, self.bounded, self.partition_by))


@dataclass(frozen=True)
class FormatSource(SparkSource):
    """Files (or any Spark format) read through Spark: ``spark.read.format(...)`` or, unbounded, ``readStream``."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    type_info: TypeInformation | None = None
    bounded: bool = True
    #: More paths to read besides ``path`` (bounded sources only).
    more_paths: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    #: Seconds between two looks for new files (unbounded sources of files only); None: as often as it costs little.
    discovery_interval: float | None = None
