"""The jobs of this user's other drivers on this machine, for a server that lists them all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from tidemill.common.job_status import JobStatus
from tidemill.errors import TidemillError
from tidemill.ops.drivers.client import JobAddress
from tidemill.ops.drivers.records import Driver, DriverJob, drivers
from tidemill.ops.rest.models.jobs import JobOverview

__all__ = ["OtherDrivers"]

#: For how many seconds the responses of drivers are cached, and the timeout of a request to a driver.
_FRESH: Final = 2.0
_PATIENCE: Final = 2.0
_AT_A_TIME: Final = 8


class OtherDrivers:
    """The jobs of the drivers that have a record, at most two seconds old. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[list[JobOverview], float] = ([], float("-inf"))

    def jobs(self) -> list[JobOverview]:
        """Return the jobs, newest last, with the address of the web page of each that has one.

        If a job was resumed in another driver, the job of the running driver is returned, or that of the newest driver.
        """
        with self._lock:
            seen, at = self._seen
            if time.monotonic() - at > _FRESH:
                seen = _look()
                self._seen = (seen, time.monotonic())
        return seen


def _look() -> list[JobOverview]:
    known = drivers()
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="tidemill-rest-drivers") as pool:
        told = pool.map(_jobs_of, [*(one for one in known if one.alive), *(one for one in known if not one.alive)])
        found: dict[str, JobOverview] = {}
        for job in (job for jobs in told for job in jobs):
            found.setdefault(job["jid"], job)
    return sorted(found.values(), key=lambda job: job["start-time"])


def _jobs_of(driver: Driver) -> Iterable[JobOverview]:
    told = [_noted(job, driver) for job in driver.jobs]
    if not driver.alive or driver.rest is None:
        return told
    # A driver that does not respond may be busy, or require a certificate.
    with suppress(TidemillError, KeyError, TypeError):
        # In this path, "overview" is in the place of a job id.
        told = JobAddress("overview", driver.rest).ask("GET", seconds=_PATIENCE)["jobs"]
    for job in told:
        job["url"] = f"{driver.rest.url}/#/jobs/{job['jid']}"
    return told


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
        "restarts": 0,
        "epoch": 0,
        "records-per-second": 0.0,
        "url": None,
    }
