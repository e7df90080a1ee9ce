"""The jobs of the driver: list, details, plan, configuration, failures, accumulators, cancellation."""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from tidemill import __version__
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.config import REDACTED, REGISTRY, PipelineOptions, RestartStrategyOptions
from tidemill.config.redaction import redacted
from tidemill.config.secret_names import is_secret_name
from tidemill.graph.plan import ChainPlan
from tidemill.ops.rest.errors import ConflictError
from tidemill.ops.rest.figures import Figures
from tidemill.ops.rest.guard import Grant
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.ops.rest.messages import message_for
from tidemill.ops.rest.models.jobs import (
    Accumulator,
    Accumulators,
    ExceptionEntries,
    ExecutionConfig,
    JobConfig,
    JobDetails,
    JobException,
    JobExceptions,
    JobId,
    JobIds,
    JobOverview,
    JobsOverview,
    Nothing,
)
from tidemill.ops.rest.models.plan import PlanAnswer
from tidemill.ops.rest.models.server import Features, Overview, ServerConfig
from tidemill.ops.rest.models.vertices import Vertex
from tidemill.ops.rest.parameters import ClientGrant, JobPath, JobsElsewhere, JobsOfServer, MaySubmit
from tidemill.ops.rest.resources.plan import plan_of

__all__ = ["router"]

router = APIRouter()

_REFRESH_MS: Final = 3000


@router.get("/config", tags=["server"], summary="The settings of the server that the web page needs")
def get_config(jobs: JobsOfServer, grant: ClientGrant, submit: MaySubmit) -> ServerConfig:
    is_history = jobs.others is not None and jobs.others.is_history
    now = time.localtime()
    return {
        "refresh-interval": _REFRESH_MS,
        "timezone-name": now.tm_zone,
        "timezone-offset": now.tm_gmtoff * 1000,
        "tidemill-version": __version__,
        "may-operate": grant >= Grant.OPERATE,
        "features": Features(
            {
                "web-submit": submit,
                "web-cancel": not is_history,
                "web-rescale": not is_history,
                "web-history": is_history,
            }
        ),
    }


@router.get("/overview", tags=["server"], summary="The number of jobs, by status")
def get_overview(jobs: JobsOfServer, elsewhere: JobsElsewhere) -> Overview:
    states = [*(job.status for job in jobs.all()), *(JobStatus[job["state"]] for job in elsewhere)]
    return {
        "jobs-running": sum(not state.is_terminal_state() for state in states),
        "jobs-finished": states.count(JobStatus.FINISHED),
        "jobs-cancelled": states.count(JobStatus.CANCELED),
        "jobs-failed": states.count(JobStatus.FAILED) + states.count(JobStatus.SUSPENDED),
        "tidemill-version": __version__,
    }


@router.get("/jobs", tags=["jobs"], summary="All jobs of the driver, with their status")
def get_jobs(jobs: JobsOfServer, elsewhere: JobsElsewhere) -> JobIds:
    own = [JobId(id=job.id, status=job.status.name) for job in jobs.all()]
    return {"jobs": [*own, *(JobId(id=job["jid"], status=job["state"]) for job in elsewhere)]}


@router.get("/jobs/overview", tags=["jobs"], summary="All jobs, with a summary of each")
def get_jobs_overview(jobs: JobsOfServer, elsewhere: JobsElsewhere) -> JobsOverview:
    return {"jobs": [*(overview_of(job) for job in jobs.all()), *elsewhere]}


@router.get("/jobs/{job_id}", tags=["jobs"], summary="A job: status, vertices, and how much they have read and written")
def get_job(job: JobPath) -> JobDetails:
    figures, status = job.figures(), job.status
    epochs = job.client.epochs[-1:]
    return {
        "jid": job.id,
        "name": redacted(job.name),
        "state": status.name,
        "job-type": job.plan.runtime_mode,
        "isStoppable": job.record_time is None and not job.is_over and job.plan.runtime_mode != "BATCH",
        "start-time": job.started,
        "end-time": -1 if job.ended is None else job.ended,
        "duration": job.duration,
        "maxParallelism": job.plan.max_parallelism,
        "now": _now(),
        "restarts": job.client.num_restarts,
        "epoch": epochs[0].epoch if epochs else 0,
        "recorded": job.record_time,
        "timestamps": {state.name: at for state, at in job.client.get_status_timestamps().items()},
        "vertices": [_vertex(job, chain, figures, status) for chain in job.plan.chains],
        "status-counts": {status.name: len(job.plan.chains)},
        "plan": plan_of(job),
    }


@router.patch("/jobs/{job_id}", tags=["jobs"], status_code=202, summary="Cancel a job")
def cancel_job(
    job: JobPath,
    mode: Annotated[
        Literal["cancel"], Query(description="The only mode; there is a separate path to stop a job.")
    ] = "cancel",
) -> Nothing:
    check_running(job)
    job.client.cancel()
    return {}


@router.get("/jobs/{job_id}/plan", tags=["jobs"], summary="The dataflow graph")
def get_plan(job: JobPath) -> PlanAnswer:
    return {"plan": plan_of(job)}


@router.get("/jobs/{job_id}/config", tags=["jobs"], summary="The configuration, with secrets masked")
def get_job_config(job: JobPath) -> JobConfig:
    configuration = job.outline.configuration
    shown = {key: _shown(key, text) for key, text in sorted(configuration.to_dict().items())}
    parameters = configuration.get(PipelineOptions.GLOBAL_JOB_PARAMETERS) or {}
    execution: ExecutionConfig = {
        "execution-mode": job.plan.runtime_mode,
        "restart-strategy": str(configuration.get(RestartStrategyOptions.TYPE) or "default"),
        "job-parallelism": _parallelism(job),
        "object-reuse-mode": configuration.get(PipelineOptions.OBJECT_REUSE),
        "user-config": {key: _shown(key, text) for key, text in parameters.items()},
    }
    return {"jid": job.id, "name": redacted(job.name), "execution-config": execution, "configuration": shown}


def _parallelism(job: ShownJob) -> int:
    """Return the configured parallelism or, if there is none, that of the widest chain."""
    configuration = job.outline.configuration
    if configuration.contains(PipelineOptions.PARALLELISM):
        return configuration.get(PipelineOptions.PARALLELISM)
    return max(job.parallelism(chain) for chain in job.plan.chains)


@router.get("/jobs/{job_id}/exceptions", tags=["jobs"], summary="The failures of the job, newest first")
def get_exceptions(
    job: JobPath,
    grant: ClientGrant,
    max_exceptions: Annotated[int, Query(alias="maxExceptions", ge=1, le=1000)] = 20,
) -> JobExceptions:
    history = job.client.get_exception_history()
    entries = [_exception(entry, grant) for entry in history[:max_exceptions]]
    failed = job.status in (JobStatus.FAILED, JobStatus.FAILING, JobStatus.RESTARTING)
    root = entries[0] if entries and failed else None
    return {
        "root-exception": root["stacktrace"] if root else None,
        "timestamp": root["timestamp"] if root else None,
        "exceptionHistory": ExceptionEntries(entries=entries, truncated=len(history) > len(entries)),
    }


@router.get(
    "/jobs/{job_id}/accumulators", tags=["jobs"], summary="The accumulators of user functions, as of committed epochs"
)
def get_accumulators(job: JobPath) -> Accumulators:
    counted = job.client.get_accumulators().result(0)
    return {
        "job-accumulators": [],
        "user-task-accumulators": [
            Accumulator(name=redacted(name), type=type(value).__name__, value=redacted(str(value)))
            for name, value in sorted(counted.items())
        ],
    }


def check_running(job: ShownJob) -> None:
    """Raise :class:`ConflictError` if the job has ended, or is one of a history."""
    if job.record_time is not None:
        raise ConflictError(f"job {job.id} is shown as recorded in the history: use the page of its driver, if it runs")
    if job.is_over:
        raise ConflictError(f"job {job.id} is {job.status.name}: this is only possible while it runs")


def overview_of(job: ShownJob) -> JobOverview:
    """Return the summary of a job."""
    status, epochs = job.status, job.client.epochs[-1:]
    vertices = [] if status.is_terminal_state() else job.now().vertices
    read = [vertex for vertex, chain in zip(vertices, job.plan.chains, strict=False) if not chain.head.inputs]
    return {
        "jid": job.id,
        "name": redacted(job.name),
        "state": status.name,
        "start-time": job.started,
        "end-time": -1 if job.ended is None else job.ended,
        "duration": job.duration,
        "tasks": {status.name.lower(): sum(job.parallelism(chain) for chain in job.plan.chains)},
        "restarts": job.client.num_restarts,
        "epoch": epochs[0].epoch if epochs else 0,
        "records-per-second": round(sum(vertex["records-in-per-second"] for vertex in read), 3),
    }


def _vertex(job: ShownJob, chain: ChainPlan, figures: Figures, status: JobStatus) -> Vertex:
    return {
        "id": vertex_id(chain.head.uid),
        "uid": chain.head.uid,
        "name": redacted(chain.name),
        "operators": [operator.uid for operator in chain.operators],
        "maxParallelism": min(operator.max_parallelism for operator in chain.operators),
        "parallelism": job.parallelism(chain),
        "status": status.name,
        "start-time": job.started,
        "end-time": -1 if job.ended is None else job.ended,
        "duration": job.duration,
        "metrics": figures.io_metrics(chain),
    }


def _exception(entry: ExceptionEntry, grant: Grant) -> JobException:
    """Return a failure. A client that may only read gets its class and location, but not its message."""
    site, text, name, record = entry.site, entry.message, entry.exception, entry.site.record
    if grant < Grant.OPERATE:
        name, record = site.exception, None
        where = site.where()
        text = f"{name}{' in ' + where if where else ''}: {message_for(grant, text)}"
    return JobException(
        exceptionName=redacted(name),
        stacktrace=redacted(text),
        timestamp=entry.timestamp,
        lastTimestamp=entry.last_timestamp,
        times=entry.times,
        taskName=redacted(site.operator) or None,
        uid=site.uid or None,
        subtask=site.subtask,
        epoch=site.epoch,
        record=None if record is None else redacted(record),
        followedBy=entry.followed_by,
    )


def _shown(key: str, text: str) -> str:
    return REDACTED if is_secret_name(key) else REGISTRY.shown(key, text)


def _now() -> int:
    return time.time_ns() // 1_000_000
