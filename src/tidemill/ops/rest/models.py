"""What the REST server answers, as it is in OpenAPI. Names are Flink's, with all their spellings.

Times are milliseconds since 1970, lengths of time milliseconds, sizes bytes.
"""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

# --- the server

Features = TypedDict("Features", {"web-submit": bool, "web-cancel": bool, "web-rescale": bool})
ServerConfig = TypedDict(
    "ServerConfig",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "tidemill-version": str,
        "features": Features,
    },
)
Overview = TypedDict(
    "Overview",
    {
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "tidemill-version": str,
    },
)


class Errors(TypedDict):
    """Why a request was not answered."""

    errors: list[str]


# --- jobs


class JobId(TypedDict):
    """A job and what it is doing."""

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
    },
)


class JobsOverview(TypedDict):
    """All jobs, with some more of each."""

    jobs: list[JobOverview]


IoMetrics = TypedDict(
    "IoMetrics",
    {
        "read-bytes": float,
        "write-bytes": float,
        "read-records": float,
        "write-records": float,
        "accumulated-busy-time": float,
        "accumulated-backpressured-time": float,
        "accumulated-idle-time": float,
    },
)
Vertex = TypedDict(
    "Vertex",
    {
        "id": str,
        "uid": str,
        "name": str,
        "operators": list[str],
        "maxParallelism": int,
        "parallelism": int,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": IoMetrics,
    },
)


class PlanInput(TypedDict):
    """An edge into a node; ``id`` is the node it comes from."""

    num: int
    id: str
    ship_strategy: str
    exchange: str
    side_output: str | None


class PlanOperator(TypedDict):
    """An operator of a chain."""

    id: str
    uid: str
    name: str
    line: str
    keyed: bool
    guarantee: NotRequired[str]


class PlanNode(TypedDict):
    """A chain of operators: what Flink calls a job vertex."""

    id: str
    parallelism: int
    operator: str
    description: str
    level: int
    inputs: list[PlanInput]
    operators: list[PlanOperator]


class Plan(TypedDict):
    """The dataflow graph; ``guarantee`` is what its sinks promise, the weakest of them."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]
    guarantee: NotRequired[str]


class PlanAnswer(TypedDict):
    """The dataflow graph of a job."""

    plan: Plan


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
        "timestamps": dict[str, int],
        "vertices": list[Vertex],
        "status-counts": dict[str, int],
        "plan": Plan,
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
    """A failure, or several one after the other at the same record."""

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
    """What functions have counted."""

    name: str
    type: str
    value: str


Accumulators = TypedDict(
    "Accumulators", {"job-accumulators": list[Accumulator], "user-task-accumulators": list[Accumulator]}
)


class Nothing(TypedDict):
    """An empty object."""


# --- vertices and metrics

Subtask = TypedDict(
    "Subtask", {"subtask": int, "status": str, "attempt": int, "start-time": int, "duration": int, "metrics": IoMetrics}
)


class VertexDetails(TypedDict):
    """A vertex with its subtasks."""

    id: str
    uid: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: list[Subtask]


class SubtaskPressure(TypedDict):
    """How busy a subtask is: shares of its time."""

    subtask: int
    backpressureLevel: str
    ratio: float
    busyRatio: float
    idleRatio: float


Backpressure = TypedDict(
    "Backpressure", {"status": str, "backpressureLevel": str, "end-timestamp": int, "subtasks": list[SubtaskPressure]}
)


class Metric(TypedDict):
    """A metric; its value is there if it was asked for."""

    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    """A metric over all subtasks."""

    id: str
    min: NotRequired[float]
    max: NotRequired[float]
    avg: NotRequired[float]
    sum: NotRequired[float]


# --- checkpoints

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


class CheckpointCounts(TypedDict):
    """How many there were."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class Spread(TypedDict):
    """A size or time over the remembered checkpoints."""

    min: int
    max: int
    avg: int
    p50: float
    p95: float


class CheckpointSummary(TypedDict):
    """Sizes and times of the remembered checkpoints that are complete."""

    state_size: Spread
    checkpointed_size: Spread
    end_to_end_duration: Spread


class LatestCheckpoints(TypedDict):
    """The last one of each kind."""

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


class CheckpointConfig(TypedDict):
    """The settings of checkpoints. An interval of 0: every epoch is one."""

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


# --- operations

Trigger = TypedDict("Trigger", {"request-id": str})


class OperationState(TypedDict):
    """IN_PROGRESS or COMPLETED."""

    id: str


FailureCause = TypedDict("FailureCause", {"class": str, "stack-trace": str})
OperationResult = TypedDict(
    "OperationResult", {"location": NotRequired[str], "failure-cause": NotRequired[FailureCause]}
)


class OperationAnswer(TypedDict):
    """What became of an operation; ``operation`` is there once it is over."""

    status: OperationState
    operation: NotRequired[OperationResult]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


_ID = Field(default=None, alias="triggerId", pattern=r"^[A-Za-z0-9_-]{1,64}$")
_FORMAT = Field(default="CANONICAL", alias="formatType", pattern="^(CANONICAL|NATIVE)$")


class SavepointRequest(_Request):
    """A savepoint to take. Savepoints have one format: ``formatType`` is accepted, and changes nothing."""

    target_directory: str | None = Field(default=None, alias="target-directory", max_length=1024)
    cancel_job: bool = Field(default=False, alias="cancel-job")
    trigger_id: str | None = _ID
    format_type: str = _FORMAT


class StopRequest(_Request):
    """A savepoint to stop with; ``drain`` first sends time to its end."""

    target_directory: str | None = Field(
        default=None, validation_alias=AliasChoices("targetDirectory", "target-directory"), max_length=1024
    )
    drain: bool = False
    trigger_id: str | None = _ID
    format_type: str = _FORMAT


class RescaleRequest(_Request):
    """A new parallelism for operators, by uid."""

    parallelism: dict[str, int] = Field(min_length=1, max_length=1000)


class DisposalRequest(_Request):
    """A savepoint to delete."""

    savepoint_path: str = Field(alias="savepoint-path", max_length=1024)


# --- epochs and state

Epoch = TypedDict(
    "Epoch",
    {
        "epoch": int,
        "ended": int,
        "duration": float,
        "phases": dict[str, float],
        "records": int,
        "delta-bytes": int,
        "state-entries": int,
        "runs": int,
    },
)


class Epochs(TypedDict):
    """Committed epochs, oldest first."""

    epochs: list[Epoch]


class StateOfOperator(TypedDict):
    """A state: ``rows`` and ``bytes`` are those in storage, ``entries`` the committed ones where they are known."""

    id: str
    name: str
    kind: str
    types: dict[str, str]
    rows: int
    bytes: int
    entries: int | None


OperatorWithState = TypedDict(
    "OperatorWithState",
    {
        "id": str,
        "uid": str,
        "name": str,
        "keyed": bool,
        "timers": int,
        "states": list[StateOfOperator],
        "operator-states": list[StateOfOperator],
    },
)


class StateList(TypedDict):
    """The operators that have state in an epoch, and their states."""

    epoch: int
    operators: list[OperatorWithState]


class QueryableNames(TypedDict):
    """The states of a job that can be queried by name."""

    epoch: int
    names: list[str]


class QueryableValue(TypedDict):
    """What a state has for a key in an epoch: a value, a list for list state, an object or pairs for map state."""

    epoch: int
    name: str
    value: Any


class StatePage(TypedDict):
    """Some entries of a state in an epoch. ``next`` asks for those that follow; None: there are none."""

    epoch: int
    uid: str
    state: str
    kind: str
    entries: list[dict[str, Any]]
    next: str | None
