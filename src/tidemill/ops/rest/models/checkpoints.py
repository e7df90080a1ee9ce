"""Checkpoints and savepoints, and their settings."""

from __future__ import annotations

from typing_extensions import TypedDict

Checkpoint = TypedDict(
    "Checkpoint",
    {
        "@class": str,
        "id": int,
        "status": str,
        "is_savepoint": bool,
        "checkpoint_type": str,
        "trigger_timestamp": int,
        "latest_ack_timestamp": int,
        "end_to_end_duration": int,
        "state_size": int,
        "checkpointed_size": int,
        "num_subtasks": int,
        "num_acknowledged_subtasks": int,
        "discarded": bool,
        "external_path": str | None,
        "failure_message": str | None,
    },
)


class TaskCheckpoint(TypedDict):
    id: str
    uid: str
    name: str
    status: str
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpointed_size: int
    end_to_end_duration: float
    write_duration: float


class CheckpointDetails(Checkpoint):
    """A checkpoint with the contribution of each vertex, by its id; empty if that is not known (anymore).

    ``checkpointed_size`` of a vertex is what its subtasks wrote. ``write_duration`` is the longest time that one of
    them took for this, and ``end_to_end_duration`` the longest epoch of one of them, in milliseconds.
    """

    tasks: dict[str, TaskCheckpoint]


class WrittenState(TypedDict):
    """How many changes of a state a subtask wrote."""

    uid: str
    name: str
    rows: int


class SubtaskCheckpointInfo(TypedDict):
    index: int
    status: str
    checkpointed_size: int
    end_to_end_duration: float
    write_duration: float
    states: list[WrittenState]


class SubtaskCheckpoints(TypedDict):
    """What the subtasks of a vertex contributed to a checkpoint."""

    id: int
    status: str
    checkpointed_size: int
    num_subtasks: int
    subtasks: list[SubtaskCheckpointInfo]


class CheckpointCounts(TypedDict):
    """The number of checkpoints, by status."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class Spread(TypedDict):
    """Statistics of a size or duration over the remembered checkpoints."""

    min: int
    max: int
    avg: int
    p50: float
    p95: float


class CheckpointSummary(TypedDict):
    """Sizes and durations of the remembered completed checkpoints."""

    state_size: Spread
    checkpointed_size: Spread
    end_to_end_duration: Spread


class LatestCheckpoints(TypedDict):
    """The latest checkpoint of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: Checkpoint | None


class Checkpoints(TypedDict):
    """The checkpoints of a job, newest first."""

    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: list[Checkpoint]


class Externalization(TypedDict):
    """Whether checkpoints outlive their job."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(TypedDict):
    """The settings of checkpoints. With an interval of 0, every epoch is a checkpoint."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    tolerable_failed_checkpoints: int
    num_retained: int
