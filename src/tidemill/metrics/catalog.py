"""What Tidemill itself measures: every metric that is not a user's, with Flink's name where Flink has it.

Tests check that jobs report these and no others, and that ``docs/metrics.md`` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidemill.common.reports.metric_value import MetricKind, MetricScope

__all__ = ["CATALOG", "PER_SECOND", "SystemMetric", "system_metric"]

#: What the rate of a counter is called after.
PER_SECOND: Final = "PerSecond"


@dataclass(frozen=True)
class SystemMetric:
    """One metric: ``by`` names what it is reported for beside its scope (a subtask, a state, a phase)."""

    scope: MetricScope
    name: str
    kind: MetricKind
    unit: str
    meaning: str
    by: tuple[str, ...] = ()
    #: Whether the metric is Flink's, of this name and meaning.
    of_flink: bool = True
    #: Whether there is a meter beside the counter, called ...PerSecond.
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
    _job("uptime", _GAUGE, "ms", "since the job last began to run; 0 while it does not run"),
    _job("downtime", _GAUGE, "ms", "since the job last stopped running because of a failure; 0 while it runs"),
    _job("numRestarts", _GAUGE, "", "restarts of the job by this driver"),
    _job("numberOfCompletedCheckpoints", _GAUGE, "", "checkpoints completed by this driver"),
    _job("numberOfFailedCheckpoints", _GAUGE, "", "checkpoints that failed"),
    _job("totalNumberOfCheckpoints", _GAUGE, "", "both of these"),
    _job("lastCompletedCheckpointId", _GAUGE, "", "the epoch of the last completed checkpoint"),
    _job("lastCheckpointDuration", _GAUGE, "ms", "from the begin of its epoch until it was committed"),
    _job("lastCheckpointSize", _GAUGE, "bytes", "what its epoch wrote"),
    _job("lastCheckpointFullSize", _GAUGE, "bytes", "all files that it refers to"),
    _job("lastCheckpointRestoreTimestamp", _GAUGE, "ms", "when the job last began from a checkpoint"),
    _job("currentEpoch", _GAUGE, "", "the last committed epoch", of_flink=False),
    _job("numEpochs", _COUNTER, "", "committed epochs", of_flink=False),
    _job(
        "numEpochRuns", _COUNTER, "", "how often these were run: more if attempts did not fit together", of_flink=False
    ),
    _job("epochDuration", _HISTOGRAM, "ms", "from the begin of an epoch until its sinks are committed", of_flink=False),
    _job(
        "epochPhaseTime",
        _HISTOGRAM,
        "ms",
        "where the time of an epoch goes, see [phases](#phases-of-an-epoch)",
        by=("phase",),
        of_flink=False,
    ),
    # A task
    _task("numRecordsIn", _COUNTER, "", "records that came in", rated=True),
    _task("numRecordsOut", _COUNTER, "", "records that left the chain", rated=True),
    _task("numBytesIn", _COUNTER, "bytes", "parcels received over exchanges", rated=True),
    _task("numBytesOut", _COUNTER, "bytes", "parcels sent over exchanges", rated=True),
    _task("busyTimeMsPerSecond", _GAUGE, "ms", "time at work, see [busy](#busy-idle-back-pressured)"),
    _task("backPressuredTimeMsPerSecond", _GAUGE, "ms", "time held up by those behind"),
    _task("idleTimeMsPerSecond", _GAUGE, "ms", "the rest"),
    _task("accumulateBusyTimeMs", _COUNTER, "ms", "time at work in all"),
    _task("accumulateBackPressuredTimeMs", _COUNTER, "ms", "time held up in all"),
    _task("accumulateIdleTimeMs", _COUNTER, "ms", "the rest in all"),
    _task("lastDeltaSize", _GAUGE, "bytes", "what the last epoch changed in the state, as stored", of_flink=False),
    _task("numColdStarts", _COUNTER, "", "how often it was opened and its state loaded", of_flink=False),
    # An operator
    _operator("numRecordsIn", _COUNTER, "", "records that came in; for a source, those it read", rated=True),
    _operator("numRecordsOut", _COUNTER, "", "records of the main output", rated=True),
    _operator("currentInputWatermark", _GAUGE, "ms", "the watermark it last received; not shown before the first"),
    _operator("currentOutputWatermark", _GAUGE, "ms", "the watermark it last sent; not shown before the first"),
    _operator(
        "watermarkLag", _GAUGE, "ms", "how far the output watermark is behind the clock, where watermarks are made"
    ),
    _operator("numLateRecordsDropped", _COUNTER, "", "records that came too late and were dropped"),
    _operator("numPoisonRecords", _COUNTER, "", "records put aside because the function raised", of_flink=False),
    _operator(
        "stateEntries",
        _GAUGE,
        "",
        "committed entries, see [state](#state)",
        by=("subtask", "state"),
        of_flink=False,
    ),
    _operator("stateBytes", _GAUGE, "bytes", "about what these take", by=("subtask", "state"), of_flink=False),
    _operator(
        "hottestKeyShare",
        _GAUGE,
        "",
        "part of the records that is of the hottest key, see [skewed keys](working-with-state.md#skewed-keys)",
        by=(),
        of_flink=False,
    ),
    # Sources and sinks
    _operator("currentFetchEventTimeLag", _GAUGE, "ms", "from the event time of the last record until it was taken up"),
    _operator("pendingRecords", _GAUGE, "", "records that wait to be read, where the source knows", by=()),
    _operator(
        "pendingFiles",
        _GAUGE,
        "",
        "files of a watched path that were found and wait to be read",
        by=(),
        of_flink=False,
    ),
    _operator(
        "numFilesSkipped",
        _GAUGE,
        "",
        "files of a watched path that were gone before they were read, with `files.missing: skip`",
        by=(),
        of_flink=False,
    ),
    _operator("sourceIdleTime", _GAUGE, "ms", "since an epoch last had records of the source", by=()),
    _operator("numRecordsSend", _COUNTER, "", "records handed to the sink's writer"),
)

_BY_NAME: Final = {(metric.scope, metric.name): metric for metric in CATALOG}


def system_metric(scope: MetricScope, name: str) -> SystemMetric | None:
    """The metric of this scope and name, None if it can only be a user's."""
    return _BY_NAME.get((scope, name))
