"""Limits how much one batch of a running query reads from a source.

Spark reads the option that limits a batch (``maxOffsetsPerTrigger``) once, when the query starts. Later it uses a map
from sources to limits, which it reads before each batch. This module changes that map between two batches, because a
restart of the query would take seconds. A version of Spark without such a map keeps the initial limit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.start.spark_positions import SourceNumbers
from tidemill.spark.frames.source_reader import SourceReader

log = logging.getLogger(__name__)

#: A limit that differs by a smaller factor is not changed: each change takes a few calls to the JVM.
_CHANGE: Final = 1.1


class BatchLimit:
    """Adapts the limits of a query's sources to the limit of an epoch. Sources whose limit stays are not changed."""

    def __init__(self, session: SparkSession, limit: EpochLimit, readers: Mapping[str, SourceReader[Any]]) -> None:
        """``readers`` are keyed by the uid of the source."""
        self._session = session
        self._limit = limit
        self._readers = readers
        self._set = {uid: reader.max_records(limit) for uid, reader in readers.items()}
        self._query: Any = None
        self._numbers: SourceNumbers = {}

    def attach(self, query: Any, numbers: SourceNumbers) -> None:
        """Set the query that reads the sources."""
        self._query, self._numbers = query, numbers

    def adapt(self) -> None:
        """Set the limits of the next batch. Must be called by the query's own thread while it processes a batch."""
        wanted = {uid: reader.max_records(self._limit) for uid, reader in self._readers.items()}
        changed = {uid: bound for uid, bound in wanted.items() if _differ(bound, self._set[uid])}
        if not changed or self._query is None:
            return
        try:
            self._change(changed)
        except Exception as error:  # the type depends on what this version of Spark lacks
            log.warning(
                "the limit of a batch cannot be changed in this version of Spark: epochs keep their number of records, "
                "regardless of how long they take (%s)",
                str(error).partition("\n")[0],
            )
            self._readers = {}
            return
        self._set.update(changed)

    def _change(self, bounds: Mapping[str, int]) -> None:
        jvm: Any = self._session._jvm
        execution = self._query._jsq.streamingQuery()
        limits = execution.uniqueSources()
        read_limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        sources = execution.sources()
        for uid, bound in bounds.items():
            for line, _, _ in self._numbers[uid]:
                limits = limits.updated(sources.apply(line), read_limit.maxRows(bound))
        getattr(execution, "uniqueSources_$eq")(limits)


def _differ(one: int, other: int) -> bool:
    return max(one, other) > _CHANGE * min(one, other)
