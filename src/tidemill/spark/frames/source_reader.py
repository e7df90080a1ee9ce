"""The contract between a source and Spark: how a source is checked and read, and how its position is tracked.

Sources are described in :mod:`tidemill.connectors`, which does not depend on Spark. Each kind of source has a reader,
in :mod:`tidemill.spark.kafka`, in :mod:`tidemill.spark.files`, or below for DataFrames. :mod:`tidemill.spark.readers`
lists all readers. No other code checks the type of a source.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidemill.connectors.sources import DataFrameSource, FormatSource, SparkSource
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import GraphError
from tidemill.runtime.driver.epoch_limit import EpochLimit

__all__ = ["DataFrameSourceReader", "PositionTracker", "SourceReader"]

S = TypeVar("S", bound=SparkSource)


class SourceReader(abc.ABC, Generic[S]):
    """Reads one source with Spark. It keeps no objects of a session, because the executions of a job share it."""

    #: Whether rows may come from files, each of which then has its own event time.
    has_files: bool = True

    def __init__(self, source: S) -> None:
        self.source = source

    def check(self, session: SparkSession) -> None:
        """Raise an error, before the job starts, if the source cannot be read."""

    @abc.abstractmethod
    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        """Return the DataFrame of the source: a streaming one, unless the source is bounded.

        A batch of a stream reads at most about ``max_records``. With ``resuming``, the job has a position for the
        source, and the configured starting position is ignored.
        """

    def frame(self, session: SparkSession, max_records: int = 0, *, resuming: bool = False) -> DataFrame:
        """Return the result of :meth:`load`. Raises :class:`GraphError` if the job cannot use its columns."""
        frame = self.load(session, max_records, resuming=resuming)
        schema_of(frame.schema)  # rejects types that Tidemill does not have: their bytes would be read as numbers
        missing = [name for name in self.source.partition_by if name not in frame.columns]
        if missing:
            raise GraphError(
                f"a source is partitioned by {', '.join(missing)}, but its columns are {', '.join(frame.columns)}: "
                "partition_by names columns of the DataFrame"
            )
        return frame

    def max_records(self, limit: EpochLimit) -> int:
        """Return the maximum number of records of the next batch of a stream. It is called after each batch."""
        return limit.max_records

    def tracker(self, session: SparkSession) -> PositionTracker | None:
        """Return a tracker for the position of a stream, or None if Spark's offset log is sufficient."""
        return None

    @property
    def files(self) -> FormatSource | None:
        """The files that the source reads, or None. It is used to map a file name in an error to the source."""
        return None

    @property
    def watches(self) -> bool:
        """Whether :attr:`files` are watched: the driver finds new files, without a streaming query."""
        return False


class PositionTracker(abc.ABC):
    """Tracks the position of one source of a streaming query, which reads a single stream.

    An ``offset`` is the line of this source in an entry of Spark's offset log.
    """

    @abc.abstractmethod
    def revised(self, offset: str, ids: Mapping[str, str]) -> str:
        """Return the offset to resume from: the stored one, unless some of the input must be skipped.

        ``ids`` is the result of :meth:`ids` when the offset was stored. Raises
        :class:`~tidemill.errors.LostInputError` if input that must be read no longer exists.
        """

    @abc.abstractmethod
    def ids(self, offset: str | None) -> dict[str, str]:
        """Return the ids, by name, of the objects read up to an offset. An object that is recreated has a new id.

        ``offset`` is None if nothing has been read yet.
        """

    @abc.abstractmethod
    def committed(self, offset: str, *, checkpoint: bool) -> None:
        """Called when an epoch that ends at this offset is committed; ``checkpoint`` is true if it is a checkpoint."""

    @abc.abstractmethod
    def explain_failure(self) -> None:
        """Called when the query has failed: raise :class:`~tidemill.errors.LostInputError` if its input is lost."""

    @abc.abstractmethod
    def close(self) -> None:
        """Called when the query has ended: release all connections."""


class DataFrameSourceReader(SourceReader[DataFrameSource]):
    """Reads a DataFrame that the program has created."""

    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        frame: DataFrame = self.source.dataframe
        return frame
