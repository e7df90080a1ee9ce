"""Path parameters, and dependencies of requests: jobs, operations, the permissions of the client."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request

from tidemill.ops.rest.errors import ForbiddenError
from tidemill.ops.rest.guard import Grant
from tidemill.ops.rest.jobs_shown import ShownJob, ShownJobs
from tidemill.ops.rest.models.jobs import JobOverview
from tidemill.ops.rest.operations import Operations

__all__ = [
    "ClientGrant",
    "JobPath",
    "JobsElsewhere",
    "JobsOfServer",
    "MaySubmit",
    "Name",
    "OperationsOfServer",
    "operating",
]

#: An id in a path. The pattern excludes path separators and dots.
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


def _jobs(request: Request) -> ShownJobs:
    jobs: ShownJobs = request.app.state.jobs
    return jobs


def _operations(request: Request) -> Operations:
    operations: Operations = request.app.state.operations
    return operations


def _submit(request: Request) -> bool:
    return request.app.state.programs is not None


def _grant(request: Request) -> Grant:
    grant: Grant = request.state.grant
    return grant


JobsOfServer = Annotated[ShownJobs, Depends(_jobs)]
OperationsOfServer = Annotated[Operations, Depends(_operations)]
ClientGrant = Annotated[Grant, Depends(_grant)]


def _elsewhere(jobs: JobsOfServer) -> list[JobOverview]:
    return [] if jobs.others is None else jobs.others.overviews()


#: Jobs of other drivers or of a history, if the server lists them.
JobsElsewhere = Annotated[list[JobOverview], Depends(_elsewhere)]
#: Whether clients may upload programs.
MaySubmit = Annotated[bool, Depends(_submit)]


def _job(
    jobs: JobsOfServer,
    job_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description="The id of a job.")],
) -> ShownJob:
    return jobs.get(job_id)


JobPath = Annotated[ShownJob, Depends(_job)]


def operating(request: Request, grant: ClientGrant) -> None:
    """Require the permission to operate for a resource with user data, and log the request."""
    request.state.operating = True
    if grant < Grant.OPERATE:
        raise ForbiddenError("this is user data, which this token may not read: use the token of rest.operate-token")
