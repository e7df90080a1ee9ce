"""The contract between a source and Spark: how a source is checked and read, and how its position is tracked.

Sources are described in :mod:`tidemill.connectors`, which does not depend on Spark. Each kind of source has a reader,
in :mod:`tidemill.spark.kafka`, in :mod:`tidemill.spark.files`, or below for DataFrames. :mod:`tidemill.spark.readers`
lists all readers. No other code checks the type of a source.
"""

from __future__ import annotations

import abc
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidemill.connectors.position_tracker import PositionTracker
from tidemill.connectors.sources import DataFrameSource, FormatSource, SparkSource
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import GraphError
from tidemill.runtime.driver.epoch_limit import EpochLimit

__all__ = ["DataFrameSourceReader", "SourceReader"]

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


class DataFrameSourceReader(SourceReader[DataFrameSource]):
    """Reads a DataFrame that the program has created."""

    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        frame: DataFrame = self.source.dataframe
        return frame
