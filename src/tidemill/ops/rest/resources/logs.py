"""The output of the driver of a job, if it is written to a file. The client cannot choose the file."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from tidemill.config.redaction import redacted
from tidemill.ops.rest.errors import ResourceNotFoundError
from tidemill.ops.rest.models.logs import LogLines
from tidemill.ops.rest.parameters import JobPath, operating
from tidemill.runtime.history.archived_job import ArchivedJob
from tidemill.runtime.observe.driver_log import LOG_VARIABLE, log_of_this_process, read_log

__all__ = ["router"]

router = APIRouter(tags=["jobs"], dependencies=[Depends(operating)])

#: Longer lines are truncated.
_LONGEST: Final = 4096


@router.get("/jobs/{job_id}/logs", summary="The last lines of the driver's log")
def get_logs(
    job: JobPath,
    lines: Annotated[
        int, Query(ge=1, le=10_000, description="Maximum number of lines; the last ones are returned.")
    ] = 200,
    after: Annotated[
        int | None,
        Query(
            ge=0, le=2**63 - 1, description="The value of next in an earlier response. Only later lines are returned."
        ),
    ] = None,
) -> LogLines:
    if isinstance(job.client, ArchivedJob):
        return _recorded(job.client, lines, after)
    path = log_of_this_process()
    if path is None:
        raise ResourceNotFoundError(
            f"the driver of job {job.id} has no log file: 'tidemill run -d' creates one. If you redirect the output of "
            f"a program to a file, set the environment variable {LOG_VARIABLE} to its path"
        )
    part = read_log(path, lines, after)
    shown = [redacted(line)[:_LONGEST] for line in part.lines]
    return LogLines(path=redacted(str(path)), lines=shown, truncated=part.skipped, next=part.end)


def _recorded(job: ArchivedJob, lines: int, after: int | None) -> LogLines:
    """Return the lines in the record of a job. Their positions are their numbers."""
    log = job.record.log
    if log is None:
        raise ResourceNotFoundError(f"the driver of job {job.get_job_id()} wrote no log file")
    start = max(len(log.lines) - lines, after or 0, 0)
    skipped = log.skipped if start == 0 else after is None or start > after
    return LogLines(path=log.path, lines=list(log.lines[start:]), truncated=skipped, next=len(log.lines))
