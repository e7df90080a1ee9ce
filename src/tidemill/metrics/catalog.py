"""The catalog of system metrics: all metrics except those of users, with Flink's names where Flink has them.

Tests check that jobs report exactly these metrics, and that ``docs/metrics.md`` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidemill.common.reports.metric_value import MetricKind, MetricScope

__all__ = ["CATALOG", "PER_SECOND", "SystemMetric", "system_metric"]

#: Suffix of the name of a counter's rate.
PER_SECOND: Final = "PerSecond"


@dataclass(frozen=True)
class SystemMetric:
    """One metric. ``by`` lists what it is broken down by in addition to its scope (a subtask, a state, a phase)."""

    scope: MetricScope
    name: str
    kind: MetricKind
    unit: str
    meaning: str
    by: tuple[str, ...] = ()
    #: Whether Flink has this metric with the same name and meaning.
    of_flink: bool = True
    #: Whether there is also a meter named ...PerSecond.
    rated: bool = False


_JOB, _TASK, _OPERATOR = MetricScope.JOB, MetricScope.TASK, MetricScope.OPERATOR
_COUNTER, _GAUGE, _HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_SUBTASK: Final = ("subtask",)


def _job(name: str, kind: MetricKind, unit: str, meaning: str, **more: object) -> SystemMetric:
    return SystemMetric(_JOB, name, kind, unit, meaning, **more)  # type: ignore[arg-type]


def _task(name: str, kind: MetricKind, unit: str, meaning: str, **more: object) -> SystemMetric:
    return SystemMetric(_TASK, name, kind, unit, meaning, **{"by": _SUBTASK, **more})  # type: ignore[arg-type]


def _operator(name: str, kind: MetricKind, unit: str, meaning: str, **more: object) -> SystemMetric:
    return SystemMetric(_OPERATOR, name, kind, unit, meaning, **{"by": _SUBTASK, **more})  # type: ignore[arg-type]


CATALOG: Final[tuple[SystemMetric, ...]] = (
    # The job
    _job("uptime", _GAUGE, "ms", "time since the job last started running; 0 while it is not running"),
    _job(
        "downtime", _GAUGE, "ms", "time since the job last stopped running because of a failure; 0 while it is running"
    ),
    _job("numRestarts", _GAUGE, "", "restarts of the job by this driver"),
    _job("numberOfCompletedCheckpoints", _GAUGE, "", "checkpoints completed by this driver"),
    _job("numberOfFailedCheckpoints", _GAUGE, "", "failed checkpoints"),
    _job("totalNumberOfCheckpoints", _GAUGE, "", "completed and failed checkpoints"),
    _job("lastCompletedCheckpointId", _GAUGE, "", "the epoch of the last completed checkpoint"),
    _job("lastCheckpointDuration", _GAUGE, "ms", "time from the start of its epoch until it was committed"),
    _job("lastCheckpointSize", _GAUGE, "bytes", "bytes written by its epoch"),
    _job("lastCheckpointFullSize", _GAUGE, "bytes", "size of all files that it refers to"),
    _job("lastCheckpointRestoreTimestamp", _GAUGE, "ms", "when the job was last restored from a checkpoint"),
    _job("currentEpoch", _GAUGE, "", "the last committed epoch", of_flink=False),
    _job("numEpochs", _COUNTER, "", "committed epochs", of_flink=False),
    _job(
        "numEpochRuns",
        _COUNTER,
        "",
        "runs of committed epochs; higher than `numEpochs` if task attempts were inconsistent",
        of_flink=False,
    ),
    _job(
        "epochDuration",
        _HISTOGRAM,
        "ms",
        "time from the start of an epoch until its sinks are committed",
        of_flink=False,
    ),
    _job(
        "epochPhaseTime",
        _HISTOGRAM,
        "ms",
        "time of each phase of an epoch, see [phases](#phases-of-an-epoch)",
        by=("phase",),
        of_flink=False,
    ),
    # A task
    _task("numRecordsIn", _COUNTER, "", "records received", rated=True),
    _task("numRecordsOut", _COUNTER, "", "records emitted by the chain", rated=True),
    _task("numBytesIn", _COUNTER, "bytes", "parcels received over exchanges", rated=True),
    _task("numBytesOut", _COUNTER, "bytes", "parcels sent over exchanges", rated=True),
    _task("busyTimeMsPerSecond", _GAUGE, "ms", "busy time per second, see [busy](#busy-idle-back-pressured)"),
    _task("backPressuredTimeMsPerSecond", _GAUGE, "ms", "time per second that the task is held up by downstream tasks"),
    _task("idleTimeMsPerSecond", _GAUGE, "ms", "remaining time per second"),
    _task("accumulateBusyTimeMs", _COUNTER, "ms", "total busy time"),
    _task("accumulateBackPressuredTimeMs", _COUNTER, "ms", "total time held up by downstream tasks"),
    _task("accumulateIdleTimeMs", _COUNTER, "ms", "total remaining time"),
    _task("lastDeltaSize", _GAUGE, "bytes", "stored size of the state changes of the last epoch", of_flink=False),
    _task("numColdStarts", _COUNTER, "", "how often the task was opened and its state loaded", of_flink=False),
    # An operator
    _operator("numRecordsIn", _COUNTER, "", "records received; for a source, records read", rated=True),
    _operator("numRecordsOut", _COUNTER, "", "records of the main output", rated=True),
    _operator("currentInputWatermark", _GAUGE, "ms", "the last received watermark; not reported before the first"),
    _operator("currentOutputWatermark", _GAUGE, "ms", "the last sent watermark; not reported before the first"),
    _operator(
        "watermarkLag", _GAUGE, "ms", "lag of the output watermark behind the clock, where watermarks are generated"
    ),
    _operator(
        "numRecordsToObjects",
        _COUNTER,
        "",
        "records of columnar batches that the operator turned into Python objects, see [columns](columns.md)",
        of_flink=False,
    ),
    _operator("numLateRecordsDropped", _COUNTER, "", "late records that were dropped"),
    _operator(
        "numPoisonRecords",
        _COUNTER,
        "",
        "records handled by an error policy because the function raised",
        of_flink=False,
    ),
    _operator(
        "stateEntries",
        _GAUGE,
        "",
        "committed entries, see [state](#state)",
        by=("subtask", "state"),
        of_flink=False,
    ),
    _operator(
        "stateBytes", _GAUGE, "bytes", "estimated size of these entries", by=("subtask", "state"), of_flink=False
    ),
    _operator(
        "hottestKeyShare",
        _GAUGE,
        "",
        "share of the hottest key in all records, see [skewed keys](working-with-state.md#skewed-keys)",
        by=(),
        of_flink=False,
    ),
    # Sources and sinks
    _operator(
        "currentFetchEventTimeLag", _GAUGE, "ms", "time from the event time of the last record until it was read"
    ),
    _operator("pendingRecords", _GAUGE, "", "records that are not read yet, if the source reports it", by=()),
    _operator(
        "pendingFiles",
        _GAUGE,
        "",
        "files of a monitored path that were found and are not read yet",
        by=(),
        of_flink=False,
    ),
    _operator(
        "numFilesSkipped",
        _GAUGE,
        "",
        "files of a monitored path that disappeared before they were read, with `files.missing: skip`",
        by=(),
        of_flink=False,
    ),
    _operator("sourceIdleTime", _GAUGE, "ms", "time since an epoch last had records of the source", by=()),
    _operator("numRecordsSend", _COUNTER, "", "records passed to the sink's writer"),
)

_BY_NAME: Final = {(metric.scope, metric.name): metric for metric in CATALOG}


def system_metric(scope: MetricScope, name: str) -> SystemMetric | None:
    """The system metric with this scope and name, or None if it is a user metric."""
    return _BY_NAME.get((scope, name))
