"""How much one batch of a running query takes of a source.

Spark reads the option that bounds a batch (``maxOffsetsPerTrigger``) once, when the query starts. What it goes by later
is a map from sources to bounds, which it looks into before each batch. Another bound is put there between two batches;
to start the query again would take seconds. A Spark that has no such map keeps the bound of the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.spark.frames.source_reader import SourceReader
from tidemill.spark.locations.build_location import Layout

log = logging.getLogger(__name__)

#: A bound that differs by less is left as it is: each change takes a few calls of the JVM.
_CHANGE: Final = 1.1


class BatchLimit:
    """Keeps the bounds of a query's sources at what an epoch may have. Sources whose bound stays are left alone."""

    def __init__(self, session: SparkSession, limit: EpochLimit, readers: Mapping[str, SourceReader[Any]]) -> None:
        """``readers`` are by the uid of the source."""
        self._session = session
        self._limit = limit
        self._readers = readers
        self._set = {uid: reader.max_records(limit) for uid, reader in readers.items()}
        self._query: Any = None
        self._layout: Layout = {}

    def attach(self, query: Any, layout: Layout) -> None:
        """From now on the sources are read by this query."""
        self._query, self._layout = query, layout

    def adapt(self) -> None:
        """Set the bounds of the next batch. To be called by the query's own thread, while it processes one."""
        wanted = {uid: reader.max_records(self._limit) for uid, reader in self._readers.items()}
        changed = {uid: bound for uid, bound in wanted.items() if _differ(bound, self._set[uid])}
        if not changed or self._query is None:
            return
        try:
            self._change(changed)
        except Exception as error:  # whatever py4j makes of a method that another Spark does not have
            log.warning(
                "the bound of a batch cannot be changed in this version of Spark: epochs keep their number of records, "
                "however long they take (%s)",
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
            for line, _, _ in self._layout[uid]:
                limits = limits.updated(sources.apply(line), read_limit.maxRows(bound))
        getattr(execution, "uniqueSources_$eq")(limits)


def _differ(one: int, other: int) -> bool:
    return max(one, other) > _CHANGE * min(one, other)
