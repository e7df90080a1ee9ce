"""The contract between sources and the engine: the driver assigns splits, and workers read them.

There are two families of sources. A :class:`SplitSource` is plain Python: the driver requests the splits of the next
epoch from its enumerator, and workers read them. Its position is stored as JSON in the manifest. A
:class:`SparkSource` (``from_dataframe``, file formats, Kafka) is only described here. The engine reads it:
``tidemill.spark`` as a DataFrame, ``tidemill.local`` with readers of its own, from positions of the same form.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tidemill.common.typeinfo import TypeInformation

#: A position must be serializable as JSON: it is stored verbatim in the manifest.
Position = Any


@dataclass(frozen=True)
class RecordBatch:
    """A batch of records from a source: values and, if the source provides them, their event timestamps (ms)."""

    values: list[Any]
    timestamps: list[int] | None = None


@dataclass(frozen=True)
class MadeRecords:
    """Records that user code creates one by one.

    Each record is consumed before the next one is created, so the code may reuse one mutable object.
    """

    values: Iterator[Any]


@dataclass(frozen=True)
class Split:
    """A piece of input for one subtask and one epoch; ``payload`` is pickled and sent to the worker that reads it.

    ``partition`` names the permanent part of the source that the records belong to (a partition of a topic, a file that
    is appended to). Each partition has its own event time, and the slowest one determines the watermark. A split
    without records announces a partition before its first record. ``last`` marks the end of the partition, which then
    no longer holds back the watermark. Without a name, all splits of a subtask share one event time. ``watermark`` is
    the event time that the partition is known to have reached before it is read.
    """

    payload: Any
    records: int
    partition: str | None = None
    last: bool = False
    watermark: int | None = None


class ClockOf(Enum):
    """The level at which a source tracks event time.

    ``SUBTASK``: per subtask, or per partition that its splits name. A partition is always read by the same subtask.

    ``SOURCE``: for the source as a whole. Files are assigned to tasks anew in every epoch, so subtasks have no event
    time of their own. Within an epoch, each file that a task reads has its own event time, and the slowest file that
    has not been read to its end determines the watermark. At the end of the epoch, the most advanced one does.

    ``PARTITION``: per partition, as named by the rows or splits. Partitions are assigned to tasks anew in every epoch.
    The slowest partition determines the watermark.
    """

    SUBTASK = "subtask"
    SOURCE = "source"
    PARTITION = "partition"


class Source(abc.ABC):  # noqa: B024 - two families share it
    """Base class of all sources."""

    #: Whether the source has an end.
    bounded: bool = True
    #: Whether reading from the same position always yields the same records.
    replayable: bool = True
    #: Whether, after a failure, records of committed epochs may be read once more.
    repeats: bool = False
    #: Whether the records are read as columns.
    columnar: bool = False

    @property
    def clock_of(self) -> ClockOf:
        """The level at which event time is tracked."""
        return ClockOf.SUBTASK

    def resolved(self) -> Source:
        """Return the source to read when a program passes this one; another one if this is an older interface to it."""
        return self


class SplitEnumerator(abc.ABC):
    """Driver side of a :class:`SplitSource`; one per job run, created from the last committed position."""

    @abc.abstractmethod
    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split | Sequence[Split]]:
        """Return the splits of the next epoch, for at most ``parallelism`` subtasks.

        They should have about ``max_records`` records in total. Entry i, which is one split or several, is read by
        subtask i. The call advances the position. The driver stores :meth:`position` with the epoch, and after a
        failure creates a new enumerator from the last committed position.
        """

    @abc.abstractmethod
    def position(self) -> Position:
        """Return the position at which the next epoch begins, as plain JSON data."""

    @property
    @abc.abstractmethod
    def finished(self) -> bool:
        """Whether there will be no more splits (always False for an unbounded source)."""

    def available(self) -> bool:
        """Whether :meth:`next_splits` would return something now. Unbounded sources override this."""
        return not self.finished

    def pending_records(self) -> int | None:
        """Return the lag of the source: the number of unread records, or None if unknown. Must return quickly."""
        return None

    def committed(self) -> None:
        """Called after an epoch has been committed that contained all splits returned so far.

        A source can then acknowledge its records to the system that it reads from. There is no guarantee that this is
        called: the driver may fail after the commit.
        """

    def close(self) -> None:
        """Release resources."""


class SplitSource(Source):
    """A source that is read in plain Python."""

    @abc.abstractmethod
    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that begins at a stored position, or at the start of the source."""

    @abc.abstractmethod
    def read(self, split: Split) -> Iterator[Any]:
        """Read one split on a worker; yields :class:`RecordBatch`, :class:`MadeRecords`, or Arrow record batches.

        The same split always yields the same records if the source is replayable. Arrow batches stay columnar until an
        operator needs Python objects. The attribute ``type_info`` determines what their rows become: tuples, rows or,
        for a single column, plain values.
        """

    #: None: runs with the environment's parallelism; a number fixes it (1 for a collection, as in Flink).
    parallelism: int | None = None
    #: Whether the last split of each partition is marked (:attr:`Split.last`). Until then the partition has more
    #: records to read, so it is never idle, even while other partitions are read for a long time.
    tells_ends: bool = False


class RowDecoder(abc.ABC):
    """Turns rows read by the engine into records, on the workers; for sources whose records are bytes in a column."""

    @abc.abstractmethod
    def decode(self, rows: Any) -> RecordBatch:
        """Return the records of an Arrow batch, in order. There are fewer records than rows if some are skipped."""


class SparkSource(Source):
    """A source that Spark reads, or the local engine in its place, from positions of the same form."""

    #: The type of the records, if known.
    type_info: TypeInformation | None = None
    #: The columns that identify the permanent part of the source that a row belongs to.
    partition_by: tuple[str, ...] = ()
    #: Converts rows to records; without one, each row is a record.
    decoder: RowDecoder | None = None

    @property
    def columnar(self) -> bool:  # type: ignore[override]
        """Rows that the engine reads are columns until a decoder makes records of them."""
        return self.decoder is None

    @property
    def ends(self) -> bool:
        """Whether the input has an end, even if the source does not count as bounded."""
        return self.bounded

    @property
    def clock_of(self) -> ClockOf:
        return ClockOf.PARTITION if self.partition_by else ClockOf.SOURCE


@dataclass(frozen=True)
class DataFrameSource(SparkSource):
    """Any Spark DataFrame, batch or streaming. Records are :class:`Row`, or tuples if ``type_info`` is a tuple type.

    The columns ``partition_by`` identify the permanent part of the source that a row belongs to, such as Kafka's topic
    and partition.
    """

    dataframe: Any
    type_info: TypeInformation | None = None
    bounded: bool = True
    partition_by: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # The DataFrame stays on the driver; a worker only needs to know the form of the records.
        return (DataFrameSource, (None, self.type_info, self.bounded, self.partition_by))


@dataclass(frozen=True)
class FormatSource(SparkSource):
    """Files, or any other input that a Spark format reads. The local engine reads the usual formats of files itself."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    type_info: TypeInformation | None = None
    bounded: bool = True
    #: More paths to read besides ``path`` (bounded sources only).
    more_paths: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    #: Seconds between two listings of files (unbounded file sources only); None: the default of the file system.
    discovery_interval: float | None = None
    decoder: RowDecoder | None = None
