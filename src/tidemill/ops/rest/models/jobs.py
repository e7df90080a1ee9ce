"""Jobs: their status, settings, failures and accumulators."""

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict

from tidemill.ops.rest.models.plan import PlanInfo
from tidemill.ops.rest.models.vertices import Vertex


class JobId(TypedDict):
    """A job and its status."""

    id: str
    status: str


class JobIds(TypedDict):
    """All jobs."""

    jobs: list[JobId]


JobOverview = TypedDict(
    "JobOverview",
    {
        "jid": str,
        "name": str,
        "state": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "tasks": dict[str, int],
        "restarts": int,
        "epoch": int,
        "records-per-second": float,
        "url": NotRequired[str | None],
    },
)


class JobsOverview(TypedDict):
    """All jobs, with a summary of each; ``url`` is the web page of a job of another driver, null if there is none."""

    jobs: list[JobOverview]


JobDetails = TypedDict(
    "JobDetails",
    {
        "jid": str,
        "name": str,
        "state": str,
        "job-type": str,
        "isStoppable": bool,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "maxParallelism": int,
        "now": int,
        "restarts": int,
        "epoch": int,
        "recorded": int | None,
        "timestamps": dict[str, int],
        "vertices": list[Vertex],
        "status-counts": dict[str, int],
        "plan": PlanInfo,
    },
)
ExecutionConfig = TypedDict(
    "ExecutionConfig",
    {
        "execution-mode": str,
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": dict[str, str],
    },
)
JobConfig = TypedDict(
    "JobConfig",
    {"jid": str, "name": str, "execution-config": ExecutionConfig, "configuration": dict[str, str]},
)


class JobException(TypedDict):
    """A failure, or several consecutive failures at the same record."""

    exceptionName: str
    stacktrace: str
    timestamp: int
    lastTimestamp: int
    times: int
    taskName: str | None
    uid: str | None
    subtask: int | None
    epoch: int | None
    record: str | None
    followedBy: str


class ExceptionEntries(TypedDict):
    """Failures, newest first."""

    entries: list[JobException]
    truncated: bool


JobExceptions = TypedDict(
    "JobExceptions",
    {"root-exception": str | None, "timestamp": int | None, "exceptionHistory": ExceptionEntries},
)


class Accumulator(TypedDict):
    """An accumulator of user functions."""

    name: str
    type: str
    value: str


Accumulators = TypedDict(
    "Accumulators", {"job-accumulators": list[Accumulator], "user-task-accumulators": list[Accumulator]}
)


class Nothing(TypedDict):
    """An empty object."""
