"""The record of a job in the history: its reports at one time, as data and as JSON.

The JSON is versioned and contains no secrets and nothing pickled: of a program it has names, lines and the graph, but
no functions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidemill.checkpoint.model import Epoch
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.checkpoint_statistics import (
    CheckpointHistory,
    CheckpointStatistics,
    CheckpointStatus,
    SubtaskCheckpoint,
)
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.hot_keys import HotKey, HotKeys
from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope, MetricSnapshot, MetricValue
from tidemill.datastream.program.transformations import PartitionKind
from tidemill.errors import CorruptFileError, FailureSite, NewerFormatError
from tidemill.graph.plan import ChainLink, ChainPlan, ExchangeEdge, JobPlan, OperatorPlan
from tidemill.runtime.observe.epoch_stats import EpochStats

__all__ = ["FORMAT_VERSION", "JobRecord", "LogTail"]

FORMAT_VERSION: Final = 1

#: The fields of an operator that are recorded: what people see of it.
_OPERATOR_FIELDS: Final = (
    "uid",
    "name",
    "spec_kind",
    "inputs",
    "keyed",
    "max_parallelism",
    "description",
    "user_line",
    "guarantee",
    "for_reading",
    "replayable",
    "repeats",
)


@dataclass(frozen=True)
class LogTail:
    """The last lines of a driver's log; ``skipped`` is whether there were more."""

    path: str
    lines: tuple[str, ...]
    skipped: bool


@dataclass(frozen=True)
class JobRecord:
    """What was known of a job at the time ``written``. Times are in milliseconds since 1970.

    ``pause`` is the interval in milliseconds at which its driver writes records while it runs. ``parallelism`` is that
    of each chain, by its id. The metrics of ``epochs`` are empty.
    """

    job_id: str
    name: str
    written: int
    pause: int
    status: JobStatus
    entered: Mapping[JobStatus, int]
    restarts: int
    plan: JobPlan
    parallelism: Mapping[int, int]
    configuration: Mapping[str, str]
    epochs: tuple[EpochStats, ...]
    checkpoints: CheckpointHistory
    exceptions: tuple[ExceptionEntry, ...]
    metrics: MetricSnapshot
    accumulators: Mapping[str, float] = field(default_factory=dict)
    hot_keys: Mapping[str, HotKeys] = field(default_factory=dict)
    log: LogTail | None = None

    @property
    def started(self) -> int:
        """When the job was started."""
        return self.entered.get(JobStatus.CREATED, self.written)

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        document = {
            "version": FORMAT_VERSION,
            "job-id": self.job_id,
            "name": self.name,
            "written": self.written,
            "pause": self.pause,
            "status": self.status.name,
            "entered": {status.name: at for status, at in self.entered.items()},
            "restarts": self.restarts,
            "plan": _plan_as_json(self.plan),
            "parallelism": [[chain, width] for chain, width in self.parallelism.items()],
            "configuration": dict(self.configuration),
            "epochs": [_epoch_as_json(stats) for stats in self.epochs],
            "checkpoints": {
                "completed": self.checkpoints.completed,
                "failed": self.checkpoints.failed,
                "restored": _checkpoint_as_json(self.checkpoints.restored),
                "latest-savepoint": _checkpoint_as_json(self.checkpoints.latest_savepoint),
                "history": [_checkpoint_as_json(one) for one in self.checkpoints.checkpoints],
            },
            "exceptions": [asdict(entry) for entry in self.exceptions],
            "metrics": {
                "timestamp": self.metrics.timestamp,
                "values": [found for value in self.metrics if (found := _metric_as_json(value)) is not None],
            },
            "accumulators": dict(self.accumulators),
            "hot-keys": {uid: asdict(keys) for uid, keys in self.hot_keys.items()},
            "log": None if self.log is None else asdict(self.log),
        }
        return json.dumps(document, allow_nan=False).encode("ascii")

    @classmethod
    def from_json(cls, data: bytes, where: str) -> JobRecord:
        """Read a record that :meth:`to_json` returned; ``where`` is its file, for messages.

        Raises :class:`NewerFormatError` if a newer version of Tidemill wrote it, and :class:`CorruptFileError` if it is
        not a record.
        """
        try:
            document = json.loads(data)
            version = document["version"]
            if version > FORMAT_VERSION:
                raise NewerFormatError(
                    f"{where} has version {version} of the format of the history; this version of Tidemill reads "
                    f"versions up to {FORMAT_VERSION}"
                )
            return cls._of(document)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(f"{where} is not the record of a job: {error!r}") from error

    @classmethod
    def _of(cls, document: dict[str, Any]) -> JobRecord:
        job_id, name, checkpoints = document["job-id"], document["name"], document["checkpoints"]
        log = document["log"]
        values = tuple(map(_metric_of, document["metrics"]["values"]))
        return cls(
            job_id=_text(job_id),
            name=_text(name),
            written=int(document["written"]),
            pause=int(document["pause"]),
            status=JobStatus[document["status"]],
            entered={JobStatus[status]: int(at) for status, at in document["entered"].items()},
            restarts=int(document["restarts"]),
            plan=_plan_of(document["plan"]),
            parallelism={int(chain): int(width) for chain, width in document["parallelism"]},
            configuration={_text(key): _text(value) for key, value in document["configuration"].items()},
            epochs=tuple(map(_epoch_of, document["epochs"])),
            checkpoints=CheckpointHistory(
                completed=int(checkpoints["completed"]),
                failed=int(checkpoints["failed"]),
                restored=_checkpoint_or_none(checkpoints["restored"]),
                checkpoints=tuple(map(_checkpoint_of, checkpoints["history"])),
                latest_savepoint=_checkpoint_or_none(checkpoints["latest-savepoint"]),
            ),
            exceptions=tuple(
                ExceptionEntry(**{**entry, "site": FailureSite(**entry["site"])}) for entry in document["exceptions"]
            ),
            metrics=MetricSnapshot(job_id, name, int(document["metrics"]["timestamp"]), values),
            accumulators={_text(key): value for key, value in document["accumulators"].items()},
            hot_keys={
                _text(uid): HotKeys(tuple(HotKey(**key) for key in found["keys"]), int(found["sampled"]))
                for uid, found in document["hot-keys"].items()
            },
            log=None if log is None else LogTail(_text(log["path"]), tuple(map(_text, log["lines"])), log["skipped"]),
        )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _plan_as_json(plan: JobPlan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "mode": plan.runtime_mode,
        "max-parallelism": plan.max_parallelism,
        "levels": plan.levels,
        "chains": [
            {
                "id": chain.id,
                "level": chain.level,
                "parallelism": chain.parallelism,
                "links": [[link.source, link.target, link.input_index, link.side_output] for link in chain.links],
                "operators": [
                    {name: getattr(operator, name) for name in _OPERATOR_FIELDS} for operator in chain.operators
                ],
            }
            for chain in plan.chains
        ],
        "edges": [
            {
                "id": edge.id,
                "source-chain": edge.source_chain,
                "source-operator": edge.source_operator,
                "side-output": edge.side_output,
                "kind": edge.kind.name,
                "target-chain": edge.target_chain,
                "input-index": edge.input_index,
                "description": edge.description,
            }
            for edge in plan.edges
        ],
    }


def _plan_of(document: dict[str, Any]) -> JobPlan:
    """Return the plan for display: it contains no functions, and cannot be run."""
    chains = tuple(
        ChainPlan(
            id=chain["id"],
            operators=tuple(OperatorPlan(spec=b"", **operator) for operator in chain["operators"]),
            links=tuple(ChainLink(*link) for link in chain["links"]),
            parallelism=chain["parallelism"],
            level=chain["level"],
        )
        for chain in document["chains"]
    )
    edges = tuple(
        ExchangeEdge(
            id=edge["id"],
            source_chain=edge["source-chain"],
            source_operator=edge["source-operator"],
            side_output=edge["side-output"],
            kind=PartitionKind[edge["kind"]],
            partitioner=b"",
            target_chain=edge["target-chain"],
            input_index=edge["input-index"],
            description=edge["description"],
        )
        for edge in document["edges"]
    )
    return JobPlan(
        document["name"],
        chains,
        edges,
        tuple(map(tuple, document["levels"])),
        document["max-parallelism"],
        document["mode"],
    )


def _epoch_as_json(stats: EpochStats) -> dict[str, Any]:
    fields = {name: getattr(stats, name) for name in EpochStats.__dataclass_fields__}
    del fields["metrics"]
    return {**fields, "phases": dict(stats.phases)}


def _epoch_of(document: dict[str, Any]) -> EpochStats:
    return EpochStats(**{**document, "epoch": Epoch(document["epoch"]), "metrics": {}})


def _checkpoint_as_json(one: CheckpointStatistics | None) -> dict[str, Any] | None:
    return None if one is None else {**asdict(one), "status": one.status.name}


def _checkpoint_of(document: dict[str, Any]) -> CheckpointStatistics:
    parts = tuple(SubtaskCheckpoint(**{**part, "rows": tuple(map(tuple, part["rows"]))}) for part in document["parts"])
    return CheckpointStatistics(**{**document, "status": CheckpointStatus[document["status"]], "parts": parts})


def _checkpoint_or_none(document: dict[str, Any] | None) -> CheckpointStatistics | None:
    return None if document is None else _checkpoint_of(document)


def _metric_as_json(metric: MetricValue) -> list[Any] | None:
    """Return a metric as JSON, which has no infinity and no NaN; None if it has no finite value."""
    value: Any = metric.value
    if isinstance(value, HistogramValue):
        numbers = [value.count, *(one if math.isfinite(one) else 0.0 for one in (value.sum, value.min, value.max))]
        # The last bucket has no upper bound.
        value = [*numbers, [[bound if math.isfinite(bound) else None, count] for bound, count in value.buckets]]
    elif not math.isfinite(value):
        return None
    place = [metric.operator, metric.operator_name, metric.subtask, [list(one) for one in metric.variables]]
    events = metric.events if metric.events is None or math.isfinite(metric.events) else None
    return [metric.scope.value, metric.name, metric.kind.value, value, *place, events]


def _metric_of(document: list[Any]) -> MetricValue:
    scope, name, kind, value, operator, operator_name, subtask, variables, events = document
    if isinstance(value, list):
        count, total, least, most, buckets = value
        bounds = tuple((math.inf if bound is None else float(bound), int(upto)) for bound, upto in buckets)
        value = HistogramValue(int(count), float(total), float(least), float(most), bounds)
    else:
        value = float(value)
    named = tuple((_text(variable), _text(of)) for variable, of in variables)
    return MetricValue(
        MetricScope(scope), _text(name), MetricKind(kind), value, operator, operator_name, subtask, named, events
    )
