"""The contract between a source and Spark: how one source of a program is checked, read as a DataFrame and followed.

Sources are described in :mod:`tidemill.connectors`, which does not know Spark. Each kind has one reader here, in the
room of what it reads: :mod:`tidemill.spark.kafka`, :mod:`tidemill.spark.files`, and below for DataFrames. The table of
all of them is :mod:`tidemill.spark.readers`. Nothing else asks a source for its kind.
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
    """How Spark reads one source. It keeps nothing of a session: attempts of a job share it."""

    #: Whether a row may come from a file, which then has event time of its own.
    has_files: bool = True

    def __init__(self, source: S) -> None:
        self.source = source

    def check(self, session: SparkSession) -> None:
        """Raise an error, before the job starts, if the source cannot be read."""

    @abc.abstractmethod
    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        """The DataFrame of the source: a streaming one, unless the source ends.

        A batch of a stream takes at most about ``max_records``. With ``resuming`` the job has a position for it, so
        where the source would begin does not matter.
        """

    def frame(self, session: SparkSession, max_records: int = 0, *, resuming: bool = False) -> DataFrame:
        """What :meth:`load` returns. Raises :class:`GraphError` if the columns do not suit the job."""
        frame = self.load(session, max_records, resuming=resuming)
        schema_of(frame.schema)  # refuses types without a counterpart here: their bytes would be read as numbers
        missing = [name for name in self.source.partition_by if name not in frame.columns]
        if missing:
            raise GraphError(
                f"a source is partitioned by {', '.join(missing)}, but its columns are {', '.join(frame.columns)}: "
                "partition_by names columns of the DataFrame"
            )
        return frame

    def max_records(self, limit: EpochLimit) -> int:
        """How many records the next batch of a stream may have. It is asked again after each batch."""
        return limit.max_records

    def tracker(self, session: SparkSession) -> PositionTracker | None:
        """Follows the position of a stream while a query reads it; None where Spark's offset log is enough."""
        return None

    @property
    def files(self) -> FormatSource | None:
        """The files that the source reads, if it does: the name of one in an error leads back to the source."""
        return None

    @property
    def watches(self) -> bool:
        """Whether :attr:`files` are watched: the driver finds new ones, and no streaming query is needed."""
        return False


class PositionTracker(abc.ABC):
    """Follows the position of one source of a streaming query, which reads a single stream.

    An ``offset`` is the line of this source in an entry of Spark's offset log.
    """

    @abc.abstractmethod
    def revised(self, offset: str, ids: Mapping[str, str]) -> str:
        """The offset to resume from: the stored one, unless something there is to be skipped.

        ``ids`` are what :meth:`ids` returned when it was stored. Raises :class:`~tidemill.errors.LostInputError` if
        input is gone that has to be read.
        """

    @abc.abstractmethod
    def ids(self, offset: str | None) -> dict[str, str]:
        """The ids, by name, of what has been read up to an offset: what is created again under a name has another id.

        ``offset`` is None as long as nothing has been read.
        """

    @abc.abstractmethod
    def committed(self, offset: str, *, checkpoint: bool) -> None:
        """An epoch that ends at this offset is committed; ``checkpoint``: it is a checkpoint."""

    @abc.abstractmethod
    def explain_failure(self) -> None:
        """The query has failed: raise :class:`~tidemill.errors.LostInputError` if input that it needs is gone."""

    @abc.abstractmethod
    def close(self) -> None:
        """The query has ended: release all connections."""


class DataFrameSourceReader(SourceReader[DataFrameSource]):
    """A DataFrame that the program has made."""

    def load(self, session: SparkSession, max_records: int, *, resuming: bool) -> DataFrame:
        frame: DataFrame = self.source.dataframe
        return frame
