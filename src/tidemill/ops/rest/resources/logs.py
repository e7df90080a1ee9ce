"""What the driver of a job has printed, where that goes to a file: which one is never up to the client."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from tidemill.config.redaction import redacted
from tidemill.ops.driver_log import LOG_VARIABLE, log_of_this_process, read_log
from tidemill.ops.rest.errors import ResourceNotFoundError
from tidemill.ops.rest.models.logs import LogLines
from tidemill.ops.rest.parameters import JobPath, operating

__all__ = ["router"]

router = APIRouter(tags=["jobs"], dependencies=[Depends(operating)])

#: Of longer lines only the beginning is told.
_LONGEST: Final = 4096


@router.get("/jobs/{job_id}/logs", summary="The last lines that the job's driver has printed")
def get_logs(
    job: JobPath,
    lines: Annotated[int, Query(ge=1, le=10_000, description="At most so many, the last ones.")] = 200,
    after: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="The next of an earlier answer: only lines behind those.")
    ] = None,
) -> LogLines:
    path = log_of_this_process()
    if path is None:
        raise ResourceNotFoundError(
            f"the driver of job {job.id} has no log file: 'tidemill run -d' makes one; who sends the output of a "
            f"program to a file names that in the environment variable {LOG_VARIABLE}"
        )
    part = read_log(path, lines, after)
    shown = [redacted(line)[:_LONGEST] for line in part.lines]
    return LogLines(path=redacted(str(path)), lines=shown, truncated=part.skipped, next=part.end)
