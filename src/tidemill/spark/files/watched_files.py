"""The watched directories of a job: the files that each epoch reads, as Spark DataFrames.

The driver finds the files and keeps track of them (:mod:`tidemill.runtime.driver.file_enumerator`). Spark reads them as
batch input, so that all formats and codecs of Spark are supported. A job without Spark streams among its other sources
needs no streaming query.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from tidemill.checkpoint.model import Epoch
from tidemill.config import StateRecoveryOptions
from tidemill.connectors.sources import FormatSource
from tidemill.errors import GraphError
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.files_read import files_begun, files_read, files_section, is_of_files
from tidemill.runtime.driver.job_metrics import JobMetrics
from tidemill.runtime.driver.launch import Launch
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.spark.files.staging import Staging
from tidemill.spark.files.watch_options import watched_source
from tidemill.spark.files.watched_source import WatchedSource
from tidemill.spark.frames.event_time import has_event_time
from tidemill.spark.jobs.engine import SourceFrames
from tidemill.spark.locations.file_source_log import LoggedFiles, former_files
from tidemill.spark.locations.job_locations import SparkLocations
from tidemill.spark.locations.locations import check_gone

__all__ = ["JobInput", "WatchedFiles"]

log = logging.getLogger(__name__)


class WatchedFiles:
    """The sources of one execution of a job that watch files. Safe to use from several threads."""

    def __init__(
        self,
        session: SparkSession,
        launch: Launch,
        sources: Mapping[int, FormatSource],
        staging: Staging,
        metrics: JobMetrics,
        skipped: Counter[str],
    ) -> None:
        """``staging`` stores copies that Spark can read; ``skipped`` counts files by uid, across all executions."""
        self._launch = launch
        self._staging = staging
        self._metrics = metrics
        self._skipped = skipped
        self._lock = threading.Lock()
        self._coordinator: Coordinator | None = None
        self._forgets_spark = False
        chains = launch.plan.chains
        self._sources: dict[int, WatchedSource] = {
            chain: watched_source(
                session,
                launch.configuration,
                chains[chain].head,
                source,
                staging,
                by_file=has_event_time(chains[chain], launch.operators),
            )
            for chain, source in sources.items()
        }

    def __bool__(self) -> bool:
        return bool(self._sources)

    def schemas(self) -> dict[int, bytes]:
        """Return the Arrow schema of each source, for the workers."""
        return {chain: one.schema() for chain, one in self._sources.items()}

    @property
    def uids(self) -> set[str]:
        """The uids of the sources."""
        return {one.uid for one in self._sources.values()}

    def open(self, coordinator: Coordinator, locations: Callable[[], SparkLocations], *, alone: bool) -> None:
        """Resume after the last committed epoch; ``alone`` is true if no other source has a position in Spark's logs.

        Raises :class:`~tidemill.errors.LostInputError` if a file that an epoch had begun to read no longer exists.
        """
        self._coordinator = coordinator
        head = coordinator.head
        old = former_files(head, coordinator.lineage, self.uids, locations)
        if alone and self._sources and head.spark is not None:
            allowed = self._launch.configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE)
            check_gone(head.spark.get("sources") or {}, self.uids, allowed=allowed)
            self._forgets_spark = True
        for one in self._sources.values():
            position = head.sources.get(one.uid)
            begun = list(files_begun(coordinator.storage, head, one.uid))
            if position is not None:
                if not is_of_files(position):
                    raise GraphError(
                        f"the stored position of the source with uid {one.uid!r} belongs to another kind of source, "
                        "but it now watches files: give the new source another uid"
                    )
                read = files_read(coordinator.storage, coordinator.manifests, head, one.uid)
            else:
                logged = old.get(one.uid, LoggedFiles(set(), []))
                read, begun = logged.read, [*logged.begun, *begun]
                if read:
                    log.info("source %r resumes after %d files in Spark's log", one.uid, len(read))
            one.open(position, read, begun)
            self._skipped[one.uid] += one.take_skipped()
            self._metrics.source_gauge(one.uid, "pendingFiles", partial(_pending, one))
            self._metrics.source_gauge(one.uid, "numFilesSkipped", partial(self._skipped.__getitem__, one.uid))

    def available(self) -> bool:
        """Whether an epoch would read files now. New files are searched for in the background."""
        with self._lock:
            waiting = [one for one in self._sources.values() if one.available(self._epoch)]
            return bool(waiting)

    def add_to(self, inputs: EpochInput, limit: EpochLimit) -> EpochInput:
        """Add the next files to the input of an epoch: from each source, about as many records as the limit allows."""
        if not self._sources or self._coordinator is None:
            return inputs
        with self._lock:
            self._staging.clear()
            frames, partitions, added = list(inputs.frames), {}, {}
            for chain, one in self._sources.items():
                rdd, added[one.uid] = one.take(self._coordinator.head, limit)
                self._skipped[one.uid] += one.take_skipped()
                frames.append(SourceFrames(rdd, (chain,)))
                partitions[chain] = 1 if rdd is None else rdd.getNumPartitions()
            return self._with(inputs, frames, partitions, added)

    def add_nothing_to(self, inputs: EpochInput) -> EpochInput:
        """Extend the input of an epoch that reads no files."""
        if not self._sources:
            return inputs
        with self._lock:
            added = {one.uid: one.take_inherited() for one in self._sources.values()}
            frames = [*inputs.frames, *(SourceFrames(None, (chain,)) for chain in self._sources)]
            inputs = replace(inputs, ended=[*inputs.ended, *self._sources])
            return self._with(inputs, frames, dict.fromkeys(self._sources, 1), added)

    def close(self) -> None:
        """Release the listings."""
        with self._lock:
            for one in self._sources.values():
                one.close()

    @property
    def _epoch(self) -> Epoch:
        """The last committed epoch."""
        return Epoch(0) if self._coordinator is None else self._coordinator.head.epoch

    def _with(
        self, inputs: EpochInput, frames: list[Any], partitions: dict[int, int], added: dict[str, list[str]]
    ) -> EpochInput:
        """Complete the input of an epoch. ``added`` are the paths that it adds to the files read, by uid."""
        state = {uid: files_section(uid, paths, Epoch(self._epoch + 1)) for uid, paths in added.items() if paths}
        return replace(
            inputs,
            frames=tuple(frames),
            partitions={**inputs.partitions, **partitions},
            state={**inputs.state, **state},
            positions={**inputs.positions, **{one.uid: one.position for one in self._sources.values()}},
            spark={} if self._forgets_spark else inputs.spark,
        )


def _pending(one: WatchedSource) -> int:
    return one.pending_files


class JobInput(SplitInput):
    """The input of a job besides a streaming query: sources in plain Python, and watched files, which never end."""

    def __init__(self, watched: WatchedFiles, *arguments: Any, **options: Any) -> None:
        """``watched`` must be open; the other arguments are those of :class:`SplitInput`."""
        self._watched = watched
        super().__init__(*arguments, **options)

    @property
    def finished(self) -> bool:
        return not self._watched and super().finished

    def available(self) -> bool:
        return self._watched.available() or super().available()

    def next_input(self) -> EpochInput:
        return self._watched.add_to(super().next_input(), self._limit)

    def end_of_input(self) -> EpochInput:
        return self._watched.add_nothing_to(super().end_of_input())

    def close(self) -> None:
        super().close()
        self._watched.close()
