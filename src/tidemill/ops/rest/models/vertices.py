"""Vertices, their subtasks, and metrics."""

from __future__ import annotations

from typing import Any

from typing_extensions import NotRequired, TypedDict

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
    """How busy, backpressured and idle a subtask is, as shares of its time."""

    subtask: int
    backpressureLevel: str
    ratio: float
    busyRatio: float
    idleRatio: float


Backpressure = TypedDict(
    "Backpressure", {"status": str, "backpressureLevel": str, "end-timestamp": int, "subtasks": list[SubtaskPressure]}
)


#: The current metrics of a vertex, as sent in events.
VertexNow = TypedDict(
    "VertexNow",
    {
        "id": str,
        "parallelism": int,
        "records-in-per-second": float,
        "records-out-per-second": float,
        "busy": float,
        "backpressure": float,
        "watermark": int | None,
    },
)


class HotKeyInfo(TypedDict):
    """A key as JSON and as text, and its estimated share and number of records."""

    key: Any
    text: str
    share: float
    records: int


class HotKeysInfo(TypedDict):
    """The most frequent keys, most frequent first, and the number of sampled records."""

    keys: list[HotKeyInfo]
    sampled: int


class MetricInfo(TypedDict):
    """A metric, with its value if it was requested."""

    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    """A metric, aggregated over all subtasks."""

    id: str
    min: NotRequired[float]
    max: NotRequired[float]
    avg: NotRequired[float]
    sum: NotRequired[float]
