"""The jobs of the other drivers of this user on this machine, for a server that shows them all."""

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

#: Seconds for which drivers are not asked again, and for which one of them is waited for.
_FRESH: Final = 2.0
_PATIENCE: Final = 2.0
_AT_A_TIME: Final = 8


class OtherDrivers:
    """What the drivers with a record say of their jobs: at most two seconds old. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[list[JobOverview], float] = ([], float("-inf"))

    def jobs(self) -> list[JobOverview]:
        """The jobs, newest last, with the address of the page of each that has one. Of jobs of one id, which went on
        in another driver, that of the driver which lives is meant, or of the newest."""
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
    # One that does not answer may be busy, or want a certificate.
    with suppress(TidemillError, KeyError, TypeError):
        # The list of all stands where a job does.
        told = JobAddress("overview", driver.rest).ask("GET", seconds=_PATIENCE)["jobs"]
    for job in told:
        job["url"] = f"{driver.rest.url}/#/jobs/{job['jid']}"
    return told


def _noted(job: DriverJob, driver: Driver) -> JobOverview:
    """A job as its driver has noted it, which has ended, or cannot be asked."""
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
