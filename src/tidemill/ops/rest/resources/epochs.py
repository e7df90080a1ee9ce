"""The epochs of a job: the last ones with their phases, and a stream of events that announces new ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tidemill.ops.rest.errors import UnavailableError
from tidemill.ops.rest.jobs_shown import ShownJob, ShownJobs
from tidemill.ops.rest.models.epochs import Epoch, Epochs
from tidemill.ops.rest.parameters import JobPath, JobsOfServer
from tidemill.runtime.observe.epoch_stats import EpochStats

__all__ = ["EventStreams", "router"]

router = APIRouter(tags=["epochs"])

#: Maximum number of event streams that a server has open at a time.
_MOST_STREAMS: Final = 16
#: How often a stream checks its job, and the minimum time between two messages, in seconds.
_LOOK: Final = 0.25
_PAUSE: Final = 2.0
#: Maximum number of epochs in one message. Clients can request further epochs.
_MOST_TOLD: Final = 20
#: After this many seconds without an event, a stream sends a comment to keep the connection alive.
_QUIET: Final = 15.0


@router.get("/jobs/{job_id}/epochs", summary="Committed epochs with their phases, oldest first")
def get_epochs(
    job: JobPath,
    after: Annotated[int, Query(ge=-1, le=2**63 - 1, description="Only epochs after this one.")] = -1,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of epochs; the last ones are returned.")
    ] = 100,
) -> Epochs:
    found = [stats for stats in list(job.client.epochs) if stats.epoch > after]
    return Epochs(epochs=[_epoch(stats) for stats in found[-limit:]])


@router.get(
    "/jobs/{job_id}/events",
    summary="Server-sent events: one for each epoch, or for several if epochs are short or the client is slow",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}},
)
async def get_events(job: JobPath, jobs: JobsOfServer, request: Request) -> StreamingResponse:
    streams: EventStreams = request.app.state.streams
    if len(streams.open) >= _MOST_STREAMS:
        raise UnavailableError(f"{_MOST_STREAMS} event streams are open: close one, or poll /epochs")
    return _Events(job, jobs, streams)


class EventStreams:
    """The open event streams of a server; they end when it is ``closing``."""

    def __init__(self) -> None:
        self.open: set[object] = set()
        self.closing = False


class _Events(StreamingResponse):
    def __init__(self, job: ShownJob, jobs: ShownJobs, streams: EventStreams) -> None:
        super().__init__(_events(job, jobs, streams), media_type="text/event-stream")
        self._streams = streams
        streams.open.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.open.discard(self)


async def _events(job: ShownJob, jobs: ShownJobs, streams: EventStreams) -> AsyncIterator[str]:
    told: tuple[Any, Any] | None = None
    at = 0.0
    while not streams.closing:
        last = job.client.epochs[-1] if job.client.epochs else None
        seen = (job.status, None if last is None else last.epoch)
        quiet = time.monotonic() - at
        if seen != told and (quiet >= _PAUSE or job.is_over):
            message = await run_in_threadpool(_message, job, told, seen)
            told, at = seen, time.monotonic()
            yield f"event: job\ndata: {message}\n\n"
        elif quiet >= _QUIET:
            at = time.monotonic()
            yield ": nothing new\n\n"
        if told is not None and told[0].is_terminal_state():
            yield "event: end\ndata: {}\n\n"
            return
        if job.record_time is None:
            await asyncio.sleep(_LOOK)
        else:
            await asyncio.sleep(_PAUSE)
            job = await run_in_threadpool(jobs.get, job.id)  # a record that may have been replaced


def _message(job: ShownJob, told: tuple[Any, Any] | None, seen: tuple[Any, Any]) -> str:
    """Return a message with the status of the job, the epochs since the last message, and the metrics of its vertices.

    Epochs after the last one ``seen`` are left for the next message, which would otherwise count them again.
    """
    after = -1 if told is None or told[1] is None else told[1]
    last = -1 if seen[1] is None else seen[1]
    epochs = [stats for stats in list(job.client.epochs) if after < stats.epoch <= last]
    head = {
        "jid": job.id,
        "state": job.status.name,
        "restarts": job.client.num_restarts,
        "epochs": len(epochs),
        "epoch": _epoch(epochs[-1]) if epochs else None,
        "latest": [] if told is None else [_epoch(stats) for stats in epochs[-_MOST_TOLD:]],
    }
    return f'{json.dumps(head).removesuffix("}")}, "vertices": {job.now().text}}}'


def _epoch(stats: EpochStats) -> Epoch:
    return {
        "epoch": stats.epoch,
        "ended": stats.ended,
        "duration": round(stats.seconds * 1000, 3),
        "phases": {phase: round(millis, 3) for phase, millis in stats.phases.items()},
        "records": stats.records_in,
        "delta-bytes": stats.delta_bytes,
        "state-entries": stats.state_entries,
        "runs": stats.runs,
    }
