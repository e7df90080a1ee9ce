"""The checkpoints and savepoints of a job, as far as it remembers them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path

from tidemill.common.reports.checkpoint_statistics import CheckpointStatistics, CheckpointStatus
from tidemill.config import CheckpointingOptions, StateOptions
from tidemill.config.redaction import redacted
from tidemill.ops.rest.errors import ResourceNotFoundError
from tidemill.ops.rest.guard import Grant
from tidemill.ops.rest.jobs_shown import ShownJob, vertex_id
from tidemill.ops.rest.messages import message_for
from tidemill.ops.rest.models.checkpoints import (
    Checkpoint,
    CheckpointConfigInfo,
    CheckpointCounts,
    CheckpointDetails,
    Checkpoints,
    CheckpointSummary,
    Externalization,
    LatestCheckpoints,
    Spread,
    SubtaskCheckpointInfo,
    SubtaskCheckpoints,
    TaskCheckpoint,
    WrittenState,
)
from tidemill.ops.rest.parameters import ClientGrant, JobPath
from tidemill.ops.rest.resources.vertices import VertexPath

__all__ = ["router"]

router = APIRouter(tags=["checkpoints"])


@router.get("/jobs/{job_id}/checkpoints", summary="Counts, sizes, durations, and the last checkpoints")
def get_checkpoints(job: JobPath, grant: ClientGrant) -> Checkpoints:
    history = job.client.get_checkpoint_history()
    newest = history.checkpoints[::-1]
    done = [one for one in newest if one.status is CheckpointStatus.COMPLETED]
    failed = next((one for one in newest if one.status is CheckpointStatus.FAILED), None)
    return Checkpoints(
        counts=CheckpointCounts(
            restored=int(history.restored is not None),
            total=history.completed + history.failed,
            in_progress=0,
            completed=history.completed,
            failed=history.failed,
        ),
        summary=CheckpointSummary(
            state_size=_spread([one.state_size for one in done]),
            checkpointed_size=_spread([one.incremental_size for one in done]),
            end_to_end_duration=_spread([one.duration for one in done]),
        ),
        latest=LatestCheckpoints(
            completed=_checkpoint(history.latest_completed, grant),
            savepoint=_checkpoint(history.latest_savepoint, grant),
            failed=_checkpoint(failed, grant),
            restored=_checkpoint(history.restored, grant),
        ),
        history=[_told(one, grant) for one in newest],
    )


@router.get("/jobs/{job_id}/checkpoints/config", summary="The settings of checkpoints")
def get_checkpoint_config(job: JobPath) -> CheckpointConfigInfo:
    get = job.outline.configuration.get
    retention = get(CheckpointingOptions.EXTERNALIZED_RETENTION)
    directory = get(CheckpointingOptions.DIRECTORY)
    return CheckpointConfigInfo(
        mode=get(CheckpointingOptions.MODE).lower(),
        interval=_millis(get(CheckpointingOptions.INTERVAL)),
        timeout=_millis(get(CheckpointingOptions.TIMEOUT)),
        min_pause=_millis(get(CheckpointingOptions.MIN_PAUSE)),
        max_concurrent=get(CheckpointingOptions.MAX_CONCURRENT),
        externalization=Externalization(
            enabled=directory is not None, delete_on_cancellation=retention == "DELETE_ON_CANCELLATION"
        ),
        state_backend=str(get(StateOptions.BACKEND)),
        checkpoint_storage=get(CheckpointingOptions.STORAGE) or ("filesystem" if directory else "temporary directory"),
        tolerable_failed_checkpoints=get(CheckpointingOptions.TOLERABLE_FAILED),
        num_retained=get(CheckpointingOptions.NUM_RETAINED),
    )


CheckpointId = Annotated[int, Path(ge=0, le=2**63 - 1, description="The id of a checkpoint.")]


@router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}", summary="One checkpoint, by its epoch")
def get_checkpoint(job: JobPath, grant: ClientGrant, checkpoint_id: CheckpointId) -> CheckpointDetails:
    found = _find(job, checkpoint_id)
    tasks = {}
    for chain in job.plan.chains:
        parts = [part for part in found.parts if part.chain == chain.head.uid]
        if parts:
            tasks[vertex_id(chain.head.uid)] = TaskCheckpoint(
                id=vertex_id(chain.head.uid),
                uid=chain.head.uid,
                name=redacted(chain.name),
                status=found.status.name,
                num_subtasks=len(parts),
                num_acknowledged_subtasks=len(parts),
                checkpointed_size=sum(part.bytes for part in parts),
                end_to_end_duration=round(max(part.duration for part in parts), 3),
                write_duration=round(max(part.write for part in parts), 3),
            )
    return {**_told(found, grant), "tasks": tasks}


@router.get(
    "/jobs/{job_id}/checkpoints/details/{checkpoint_id}/subtasks/{vertex_id}",
    summary="What each subtask of a vertex contributed to a checkpoint",
)
def get_checkpoint_of_vertex(job: JobPath, chain: VertexPath, checkpoint_id: CheckpointId) -> SubtaskCheckpoints:
    found = _find(job, checkpoint_id)
    parts = [part for part in found.parts if part.chain == chain.head.uid]
    if not parts:
        raise ResourceNotFoundError(
            f"what the subtasks contributed to checkpoint {checkpoint_id} is not known: the driver remembers it for "
            "its own recent checkpoints, not for savepoints"
        )
    subtasks = [
        SubtaskCheckpointInfo(
            index=part.subtask,
            status=found.status.name,
            checkpointed_size=part.bytes,
            end_to_end_duration=round(part.duration, 3),
            write_duration=round(part.write, 3),
            states=[WrittenState(uid=uid, name=state, rows=rows) for uid, state, rows in part.rows],
        )
        for part in parts
    ]
    return SubtaskCheckpoints(
        id=found.checkpoint_id,
        status=found.status.name,
        checkpointed_size=sum(part.bytes for part in parts),
        num_subtasks=len(parts),
        subtasks=subtasks,
    )


def _find(job: ShownJob, checkpoint_id: int) -> CheckpointStatistics:
    """Return a checkpoint, or the savepoint of its epoch if there is only that. Raises ResourceNotFoundError."""
    known = job.client.get_checkpoint_history().checkpoints
    found = [one for one in known if one.checkpoint_id == checkpoint_id]
    if not found:
        raise ResourceNotFoundError(
            f"job {job.id} remembers no checkpoint {checkpoint_id}; see web.checkpoints.history"
        )
    return min(found, key=lambda one: one.is_savepoint)


def _checkpoint(one: CheckpointStatistics | None, grant: Grant) -> Checkpoint | None:
    return None if one is None else _told(one, grant)


def _told(one: CheckpointStatistics, grant: Grant) -> Checkpoint:
    done = one.status is CheckpointStatus.COMPLETED
    return {
        "@class": one.status.value,
        "id": one.checkpoint_id,
        "status": one.status.name,
        "is_savepoint": one.is_savepoint,
        "checkpoint_type": "SAVEPOINT" if one.is_savepoint else "CHECKPOINT",
        "trigger_timestamp": one.trigger_timestamp,
        "latest_ack_timestamp": one.trigger_timestamp + one.duration if done else -1,
        "end_to_end_duration": one.duration,
        "state_size": one.state_size,
        "checkpointed_size": one.incremental_size,
        "num_subtasks": one.subtasks,
        "num_acknowledged_subtasks": one.subtasks if done else 0,
        "discarded": not one.retained and not one.is_savepoint,
        "external_path": None if one.path is None else redacted(one.path),
        "failure_message": None if one.failure is None else message_for(grant, one.failure),
    }


def _spread(values: Sequence[int]) -> Spread:
    if not values:
        return Spread(min=0, max=0, avg=0, p50=0, p95=0)
    ordered = sorted(values)
    last = len(ordered) - 1
    return Spread(
        min=ordered[0],
        max=ordered[-1],
        avg=sum(ordered) // len(ordered),
        p50=ordered[round(last * 0.5)],
        p95=ordered[round(last * 0.95)],
    )


def _millis(length: timedelta | None) -> int:
    return 0 if length is None else int(length.total_seconds() * 1000)
