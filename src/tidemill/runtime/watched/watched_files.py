"""The watched directories of a job: the files that each epoch reads.

The driver finds the files and keeps track of them (:mod:`tidemill.runtime.driver.file_enumerator`). The engine reads
them: Spark as batch DataFrames, with all formats and codecs of Spark, the local engine in plain Python.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.config import StateRecoveryOptions
from tidemill.errors import GraphError
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.files_read import files_begun, files_read, files_section, is_of_files
from tidemill.runtime.driver.job_metrics import JobMetrics
from tidemill.runtime.driver.launch import Launch
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.start.spark_positions import check_gone
from tidemill.runtime.watched.watched_source import EpochRows, WatchedSource

__all__ = ["FormerFiles", "LoggedFiles", "MakeFrame", "WatchedFiles", "WatchingInput"]

log = logging.getLogger(__name__)


class LoggedFiles(NamedTuple):
    """The files of committed batches, and the files that a later batch had begun to read."""

    read: set[str]
    begun: list[str]


#: Finds the files that were read when Spark itself listed them: from the head, the lineage, and the uids of sources.
FormerFiles = Callable[[Manifest, str, set[str]], Mapping[str, LoggedFiles]]
#: Makes the engine's own input from the rows of an epoch and the chain that reads them.
MakeFrame = Callable[[EpochRows | None, int], Any]


class WatchedFiles:
    """The sources of one execution of a job that watch files. Safe to use from several threads."""

    def __init__(
        self,
        launch: Launch,
        sources: Mapping[int, WatchedSource],
        metrics: JobMetrics,
        skipped: Counter[str],
        frame: MakeFrame,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        """``sources`` are keyed by chain; ``skipped`` counts files by uid, across all executions. ``before`` is called
        before the files of an epoch are taken, when those of the previous epoch have been read."""
        self._launch = launch
        self._sources = dict(sources)
        self._metrics = metrics
        self._skipped = skipped
        self._frame = frame
        self._before = before
        self._lock = threading.Lock()
        self._coordinator: Coordinator | None = None
        self._forgets_spark = False

    def __bool__(self) -> bool:
        return bool(self._sources)

    def schemas(self) -> dict[int, bytes]:
        """Return the Arrow schema of each source, for the workers."""
        return {chain: one.schema() for chain, one in self._sources.items()}

    @property
    def uids(self) -> set[str]:
        """The uids of the sources."""
        return {one.uid for one in self._sources.values()}

    def open(self, coordinator: Coordinator, former: FormerFiles, *, alone: bool) -> None:
        """Resume after the last committed epoch; ``alone`` is true if no other source has a position in Spark's logs.

        Raises :class:`~tidemill.errors.LostInputError` if a file that an epoch had begun to read no longer exists.
        """
        self._coordinator = coordinator
        head = coordinator.head
        old = former(head, coordinator.lineage, self.uids)
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
            self._before()
            frames, partitions, added = list(inputs.frames), {}, {}
            for chain, one in self._sources.items():
                rows, added[one.uid] = one.take(self._coordinator.head, limit)
                self._skipped[one.uid] += one.take_skipped()
                frames.append(self._frame(rows, chain))
                partitions[chain] = 1 if rows is None else rows.partitions
            return self._with(inputs, frames, partitions, added)

    def add_nothing_to(self, inputs: EpochInput) -> EpochInput:
        """Extend the input of an epoch that reads no files."""
        if not self._sources:
            return inputs
        with self._lock:
            added = {one.uid: one.take_inherited() for one in self._sources.values()}
            frames = [*inputs.frames, *(self._frame(None, chain) for chain in self._sources)]
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


class WatchingInput(SplitInput):
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
