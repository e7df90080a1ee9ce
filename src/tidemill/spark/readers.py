"""Maps sources to their readers, and groups the Spark sources of a job by the way its epochs read them.

This is for sources that Spark reads, subclasses of :class:`~tidemill.connectors.sources.SparkSource`. To add a kind,
describe it in :mod:`tidemill.connectors`, implement a :class:`~tidemill.spark.frames.source_reader.SourceReader` for
it, and add both to :data:`READERS`. A :class:`~tidemill.connectors.sources.SplitSource` needs nothing here: workers
read its splits in plain Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from tidemill.connectors.kafka.source import KafkaSource
from tidemill.connectors.sources import DataFrameSource, FormatSource, Source, SparkSource
from tidemill.errors import GraphError
from tidemill.spark.files.format_reader import FormatReader
from tidemill.spark.frames.source_reader import DataFrameSourceReader, SourceReader
from tidemill.spark.kafka.kafka_reader import KafkaReader

__all__ = ["READERS", "SparkReaders", "reader_of"]

#: The reader of each kind of source, which also reads its subclasses.
READERS: Final[Mapping[type[SparkSource], type[SourceReader[Any]]]] = {
    DataFrameSource: DataFrameSourceReader,
    FormatSource: FormatReader,
    KafkaSource: KafkaReader,
}


def reader_of(source: SparkSource) -> SourceReader[Any]:
    """Return the reader of a source. Raises :class:`GraphError` for a kind that has none."""
    for kind, reader in READERS.items():
        if isinstance(source, kind):
            return reader(source)
    raise GraphError(
        f"{type(source).__name__} is not a source that Spark can read: pass a DataFrame to from_dataframe() instead"
    )


@dataclass(frozen=True)
class SparkReaders:
    """The readers of a job's sources, by chain."""

    by_chain: Mapping[int, SourceReader[Any]]

    @classmethod
    def of(cls, sources: Mapping[int, Source]) -> SparkReaders:
        """Return the readers of all sources that Spark reads. Other sources need no reader."""
        return cls({chain: reader_of(source) for chain, source in sources.items() if isinstance(source, SparkSource)})

    def check(self, session: SparkSession) -> None:
        """Raise an error if one of the sources cannot be read."""
        for reader in self.by_chain.values():
            reader.check(session)

    @property
    def bounded(self) -> dict[int, SourceReader[Any]]:
        """The bounded sources, whose rows are materialized before the first epoch."""
        return {chain: reader for chain, reader in self.by_chain.items() if reader.source.ends}

    @property
    def streams(self) -> dict[int, SourceReader[Any]]:
        """The sources that a streaming query reads."""
        elsewhere = self.bounded.keys() | self.watched.keys()
        return {chain: reader for chain, reader in self.by_chain.items() if chain not in elsewhere}

    @property
    def watched(self) -> dict[int, FormatSource]:
        """The sources that watch files; each epoch reads the new files as a batch."""
        return {chain: files for chain, files in self.files.items() if self.by_chain[chain].watches}

    @property
    def files(self) -> dict[int, FormatSource]:
        """The sources that read files, bounded or not."""
        return {chain: reader.files for chain, reader in self.by_chain.items() if reader.files is not None}
