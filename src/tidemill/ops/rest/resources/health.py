"""Health of the driver: the checks of ``tidemill doctor``, for the running process."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Iterator
from typing import Final

from fastapi import APIRouter, Request

from tidemill.config.redaction import redacted
from tidemill.ops.findings import Finding, directories_found, packages_found
from tidemill.ops.rest.errors import UnavailableError
from tidemill.ops.rest.jobs_shown import ShownJob
from tidemill.ops.rest.models.health import Health, HealthFinding
from tidemill.ops.rest.parameters import JobsOfServer

__all__ = ["HealthLook", "router"]

router = APIRouter(tags=["server"])

#: For how many seconds results are cached, because each check writes and reads a file in each directory.
_FRESH: Final = 30.0
_PATIENCE: Final = 5.0


class HealthLook:
    """The cached results, so that many clients cause only one check, and hanging storage blocks only one check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[Health, float, frozenset[str]] | None = None

    def of(self, jobs: list[ShownJob]) -> Health:
        """Return the results for these jobs. Raises :class:`UnavailableError` if another check takes too long."""
        running = frozenset(job.id for job in jobs)
        if not self._lock.acquire(timeout=_PATIENCE):
            raise UnavailableError("checking the directories of the jobs takes too long: their storage may hang")
        try:
            if self._seen is None or self._seen[2] != running or time.monotonic() - self._seen[1] > _FRESH:
                self._seen = (_look(jobs), time.monotonic(), running)
            return self._seen[0]
        finally:
            self._lock.release()


@router.get("/health", summary="Whether the packages and directories that jobs require are available")
def get_health(jobs: JobsOfServer, request: Request) -> Health:
    look: HealthLook = request.app.state.health
    return look.of([job for job in jobs.all() if not job.is_over])


def _look(jobs: list[ShownJob]) -> Health:
    found = [HealthFinding(what=one.what, status=one.status, detail=redacted(one.detail)) for one in _findings(jobs)]
    is_well = all(one["status"] != "problem" for one in found)
    return {"status": "ok" if is_well else "problem", "timestamp": time.time_ns() // 1_000_000, "findings": found}


def _findings(jobs: list[ShownJob]) -> Iterator[Finding]:
    yield Finding("Python", "ok", platform.python_version())
    yield from packages_found()
    for job in jobs:
        for one in directories_found(job.outline.configuration):
            yield Finding(f"{one.what} of job {job.id}", one.status, one.detail)
