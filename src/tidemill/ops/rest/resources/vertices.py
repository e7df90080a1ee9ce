"""Metrics of jobs, and their vertices: subtasks, watermarks, backpressure."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from tidemill.config.redaction import redacted
from tidemill.graph.plan import ChainPlan
from tidemill.ops.rest.figures import level_of, selected
from tidemill.ops.rest.jobs_shown import vertex_id
from tidemill.ops.rest.models.vertices import AggregatedMetric, Backpressure, MetricInfo, Subtask, VertexDetails
from tidemill.ops.rest.parameters import JobPath, Name

__all__ = ["router"]

router = APIRouter(tags=["vertices and metrics"])


def _chain(job: JobPath, vertex_id: Name) -> ChainPlan:
    return job.chain(vertex_id)


VertexPath = Annotated[ChainPlan, Depends(_chain)]
Wanted = Annotated[
    str | None,
    Query(max_length=4096, description="Comma-separated ids. Without it, all ids without values are returned."),
]


@router.get("/jobs/{job_id}/metrics", summary="The metrics of the job itself")
def get_job_metrics(job: JobPath, get: Wanted = None) -> list[MetricInfo]:
    return selected(job.figures().texts(None), get)


@router.get("/jobs/{job_id}/vertices/{vertex_id}", summary="A vertex with its subtasks")
def get_vertex(job: JobPath, chain: VertexPath) -> VertexDetails:
    figures, status = job.figures(), job.status.name
    subtasks: list[Subtask] = [
        {
            "subtask": subtask,
            "status": status,
            "attempt": job.client.num_restarts,
            "start-time": job.started,
            "duration": job.duration,
            "metrics": figures.io_metrics(chain, subtask),
        }
        for subtask in range(job.parallelism(chain))
    ]
    return VertexDetails(
        id=vertex_id(chain.head.uid),
        uid=chain.head.uid,
        name=redacted(chain.name),
        parallelism=job.parallelism(chain),
        maxParallelism=min(operator.max_parallelism for operator in chain.operators),
        now=time.time_ns() // 1_000_000,
        subtasks=subtasks,
    )


@router.get("/jobs/{job_id}/vertices/{vertex_id}/metrics", summary="The metrics of a vertex, by subtask and operator")
def get_vertex_metrics(job: JobPath, chain: VertexPath, get: Wanted = None) -> list[MetricInfo]:
    return selected(job.figures().texts(chain), get)


@router.get(
    "/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics",
    summary="The metrics of a vertex, aggregated over its subtasks",
)
def get_aggregated_metrics(
    job: JobPath,
    chain: VertexPath,
    get: Wanted = None,
    agg: Annotated[
        str, Query(max_length=100, description="Comma-separated list of min, max, avg, sum.")
    ] = "min,max,avg,sum",
) -> list[AggregatedMetric]:
    return job.figures().aggregated(chain, get, agg)


@router.get("/jobs/{job_id}/vertices/{vertex_id}/watermarks", summary="The watermark of each subtask")
def get_watermarks(job: JobPath, chain: VertexPath) -> list[MetricInfo]:
    return job.figures().watermarks(chain)


@router.get("/jobs/{job_id}/vertices/{vertex_id}/backpressure", summary="How busy and backpressured each subtask is")
def get_backpressure(job: JobPath, chain: VertexPath) -> Backpressure:
    figures = job.figures()
    found = figures.pressures(chain, job.parallelism(chain))
    return {
        "status": "ok",
        "backpressureLevel": level_of(max((one["ratio"] for one in found), default=0.0)),
        "end-timestamp": figures.timestamp,
        "subtasks": found,
    }
