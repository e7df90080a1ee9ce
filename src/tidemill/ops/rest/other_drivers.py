"""The jobs of this user's other drivers on this machine, for a server that lists them all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.common.job_status import JobStatus
from tidemill.errors import ConfigurationError, TidemillError
from tidemill.ops.drivers.client import JobAddress
from tidemill.ops.drivers.records import Driver, DriverJob, drivers
from tidemill.ops.rest.archived_jobs import ArchivedJobs
from tidemill.ops.rest.jobs_shown import ShownJob
from tidemill.ops.rest.models.jobs import JobOverview

__all__ = ["OtherDrivers"]

#: For how many seconds the responses of drivers are cached, and the timeout of a request to a driver.
_FRESH: Final = 2.0
_PATIENCE: Final = 2.0
_AT_A_TIME: Final = 8


class OtherDrivers:
    """The jobs of the drivers that have a record, at most two seconds old. Thread-safe.

    Jobs of drivers that have ended are shown as recorded in their history, if they have one. ``configuration`` has the
    credentials to read it.
    """

    is_history = False

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._archived = ArchivedJobs((), configuration or Configuration())
        self._lock = threading.Lock()
        self._seen: tuple[list[JobOverview], float] = ([], float("-inf"))

    def find(self, job_id: str) -> ShownJob | None:
        """Return a job whose driver has ended. Others are shown by their drivers."""
        listed = next((job for job in self.overviews() if job["jid"] == job_id and "url" not in job), None)
        return None if listed is None else self._archived.find(job_id)

    def overviews(self) -> list[JobOverview]:
        """Return the jobs, newest last, with the address of the web page of each that has one.

        If a job was resumed in another driver, the job of the running driver is returned, or that of the newest driver.
        """
        with self._lock:
            seen, at = self._seen
            if time.monotonic() - at > _FRESH:
                seen = self._look()
                self._seen = (seen, time.monotonic())
        return seen

    def _look(self) -> list[JobOverview]:
        known = drivers()
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="tidemill-rest-drivers") as pool:
            ordered = [*(one for one in known if one.alive), *(one for one in known if not one.alive)]
            found: dict[str, JobOverview] = {}
            for job in (job for jobs in pool.map(self._jobs_of, ordered) for job in jobs):
                found.setdefault(job["jid"], job)
        return sorted(found.values(), key=lambda job: job["start-time"])

    def _jobs_of(self, driver: Driver) -> Iterable[JobOverview]:
        if not driver.alive:
            return [self._ended(job, driver) for job in driver.jobs]
        told = [_noted(job, driver) for job in driver.jobs]
        if driver.rest is None:
            return told
        # A driver that does not respond may be busy, or require a certificate.
        with suppress(TidemillError, KeyError, TypeError):
            # In this path, "overview" is in the place of a job id.
            told = JobAddress("overview", driver.rest).ask("GET", seconds=_PATIENCE)["jobs"]
        for job in told:
            job["url"] = f"{driver.rest.url}/#/jobs/{job['jid']}"
        return told

    def _ended(self, job: DriverJob, driver: Driver) -> JobOverview:
        """Return a job of a driver that has ended, from its history or from the record of the driver."""
        noted = _noted(job, driver)
        if job.history is None:
            return noted
        try:
            self._archived.add(job.history)
        except ConfigurationError:
            return noted
        return self._archived.ended(job.id) or noted


def _noted(job: DriverJob, driver: Driver) -> JobOverview:
    """Return a job from the record of a driver that has ended or does not respond."""
    status = job.status or (JobStatus.RUNNING if driver.alive else JobStatus.SUSPENDED).name
    ended = -1 if driver.alive else driver.ended or driver.started
    return {
        "jid": job.id,
        "name": job.name,
        "state": status,
        "start-time": driver.started,
        "end-time": ended,
        "duration": (ended if ended > 0 else time.time_ns() // 1_000_000) - driver.started,
        "tasks": {},
        "restarts": job.restarts,
        "epoch": job.epoch,
        "records-per-second": 0.0,
        "url": None,
    }
