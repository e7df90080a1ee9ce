"""The jobs of a history: those that have records in directories or object stores."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from tidemill.checkpoint.storage.storages import MemoryStorage, NotFoundError
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, HistoryOptions
from tidemill.errors import ConfigurationError, TidemillError
from tidemill.ops.rest.jobs_shown import ShownJob, StatePlace
from tidemill.ops.rest.models.jobs import JobOverview
from tidemill.ops.rest.resources.jobs import overview_of
from tidemill.runtime.driver.job import JobOutline
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.history.archive import HISTORY_FOLDER, HistoryFiles, RecordName
from tidemill.runtime.history.archived_job import ArchivedJob
from tidemill.runtime.history.job_record import JobRecord

__all__ = ["ArchivedJobs"]

log = logging.getLogger(__name__)

#: How many records are read at a time, and how many are kept whole. Of the others, only the summary is kept.
_READERS: Final = 8
_MOST_KEPT: Final = 8


@dataclass(frozen=True)
class _Start:
    """One start of a job: its record, where that is, and the id under which it is shown.

    ``superseded`` is whether the job was started again later, so that the driver of this start has ended.
    """

    directory: str
    name: RecordName
    shown_as: str
    superseded: bool


class ArchivedJobs:
    """The jobs with records in some directories. Records that cannot be read are logged and not shown. Thread-safe.

    A job is shown under its id as of its last start. Earlier starts of it, which left a record, have the id
    ``<job id>.<time of the start>``.
    """

    is_history = True

    def __init__(self, directories: Iterable[str], configuration: Configuration) -> None:
        # configuration
        self._configuration = configuration
        self._fresh: float = configuration.get(HistoryOptions.REFRESH).total_seconds()
        # transient
        self._lock = threading.RLock()
        self._archives: dict[str, HistoryFiles] = {}
        self._looked = float("-inf")
        self._starts: dict[str, _Start] = {}
        self._overviews: dict[_Start, JobOverview] = {}
        self._kept: OrderedDict[_Start, ShownJob] = OrderedDict()
        self._failed: set[str] = set()
        for directory in directories:
            self.add(directory)

    def add(self, directory: str) -> None:
        """Show the records in a further directory. Raises :class:`ConfigurationError` if it cannot be one."""
        with self._lock:
            if directory not in self._archives:
                self._archives[directory] = HistoryFiles.at(directory, self._configuration)
                self._looked = float("-inf")

    def overviews(self) -> list[JobOverview]:
        """Return a summary of each job, newest last."""
        with self._lock:
            self._refresh()
            found = [self._overviews[start] for start in self._starts.values() if start in self._overviews]
        return sorted(found, key=lambda job: job["start-time"])

    def ended(self, job_id: str) -> JobOverview | None:
        """Return a summary of a job whose driver is known to have ended."""
        with self._lock:
            found = self.find(job_id)
            if found is None:
                return None
            if isinstance(found.client, ArchivedJob):
                found.client.gone = True
            return overview_of(found)

    def find(self, job_id: str) -> ShownJob | None:
        """Return the job with this id, as last recorded."""
        with self._lock:
            self._refresh()
            start = self._starts.get(job_id)
            if start is None:
                return None
            found = self._kept.get(start)
            if found is None:
                record = self._read(start)
                if record is None:
                    return None
                found = self._kept[start] = self._shown(start, record)
            self._kept.move_to_end(start)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return found

    def close(self) -> None:
        """Release connections."""
        for archive in self._archives.values():
            archive.close()

    def _refresh(self) -> None:
        """Look for new records, unless that was done recently."""
        if time.monotonic() - self._looked <= self._fresh:
            return
        self._starts = self._list()
        known = set(self._starts.values())
        for start in list(self._overviews):
            # A record that is not final may have been written again.
            if start not in known or start.name.ended is None:
                del self._overviews[start]
        wanted = [start for start in known if start not in self._overviews]
        with ThreadPoolExecutor(_READERS, thread_name_prefix="tidemill-rest-history") as pool:
            for start, record in zip(wanted, pool.map(self._read, wanted), strict=True):
                if record is not None:
                    shown = self._kept.get(start)
                    if shown is not None and isinstance(shown.client, ArchivedJob):
                        shown = self._kept[start] = self._shown(start, record)
                    self._overviews[start] = overview_of(shown or self._shown(start, record))
        for start in [start for start in self._kept if start not in known]:
            del self._kept[start]
        self._looked = time.monotonic()

    def _list(self) -> dict[str, _Start]:
        """Return the starts of all jobs by the id under which they are shown."""
        by_job: dict[str, list[tuple[RecordName, str]]] = {}
        for directory, archive in self._archives.items():
            try:
                names: Sequence[RecordName] = archive.names()
            except TidemillError as error:
                self._note(directory, error)
                continue
            self._failed.discard(directory)
            for name in names:
                by_job.setdefault(name.job_id, []).append((name, directory))
        found: dict[str, _Start] = {}
        for job_id, starts in by_job.items():
            starts.sort(key=lambda one: (one[0].started, one[0].token))
            for name, directory in starts[:-1]:
                earlier = f"{job_id}.{name.started}"
                if earlier not in by_job:
                    found[earlier] = _Start(directory, name, earlier, superseded=True)
            name, directory = starts[-1]
            found[job_id] = _Start(directory, name, job_id, superseded=False)
        return found

    def _read(self, start: _Start) -> JobRecord | None:
        try:
            return self._archives[start.directory].read(start.name)
        except NotFoundError:  # replaced by the final one, which will be listed next time
            return None
        except TidemillError as error:
            self._note(f"{start.directory}/{start.name.file}", error)
            return None

    def _note(self, what: str, error: TidemillError) -> None:
        """Log an error once."""
        if what not in self._failed:
            self._failed.add(what)
            log.warning("%s is not shown: %s", what, error)

    def _shown(self, start: _Start, record: JobRecord) -> ShownJob:
        chains = tuple(
            replace(chain, parallelism=record.parallelism.get(chain.id, chain.parallelism))
            for chain in record.plan.chains
        )
        plan = replace(record.plan, chains=chains)
        configuration = Configuration()
        for key, value in record.configuration.items():
            try:
                configuration.set_string(key, value)
            except ConfigurationError:  # a masked value
                continue
        outline = JobOutline(plan, configuration, MemoryStorage(), JobParallelism(plan, 1))
        client = ArchivedJob(record, gone=start.superseded)
        return ShownJob(client, outline, shown_as=start.shown_as, state=self._state_of(start))

    def _state_of(self, start: _Start) -> StatePlace | None:
        """Return where the state of a job is: beside the history. A record cannot name other places."""
        parent, _, folder = start.directory.rstrip("/").rpartition("/")
        if folder != HISTORY_FOLDER or start.superseded:
            return None
        job_id = start.name.job_id
        configuration = Configuration(self._configuration)
        configuration.set(CheckpointingOptions.DIRECTORY, parent or "/")
        return StatePlace(f"{parent}/{job_id}", job_id, configuration)
