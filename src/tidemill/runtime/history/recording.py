"""Takes the record of a job, with secrets masked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.reports.checkpoint_statistics import CheckpointHistory, CheckpointStatistics
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.hot_keys import HotKeys
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.config import REDACTED, REGISTRY
from tidemill.config.redaction import redacted, redacted_value
from tidemill.config.secret_names import is_secret_name
from tidemill.graph.plan import JobPlan
from tidemill.runtime.history.job_record import JobRecord, LogTail
from tidemill.runtime.observe.driver_log import log_of_this_process, read_log
from tidemill.runtime.observe.epoch_stats import EpochStats

__all__ = ["Subject", "record_of"]

#: Maximum number of lines of the driver's log in a record, and their maximum length.
_LOG_LINES: Final = 1000
_LONGEST_LINE: Final = 4096


@dataclass(frozen=True)
class Subject:
    """A job to take records of. The functions return what changes while it runs."""

    client: JobClient
    name: str
    plan: JobPlan
    configuration: Configuration
    parallelism: Callable[[int], int]
    epochs: Callable[[], Sequence[EpochStats]]
    restarts: Callable[[], int]


def record_of(subject: Subject, pause: int) -> JobRecord:
    """Return what is known of a job now; ``pause`` is the interval between records, in milliseconds."""
    client, plan = subject.client, subject.plan
    keyed = [chain.head.uid for chain in plan.chains if chain.head.keyed]
    found = {uid: client.get_hot_keys(uid) for uid in keyed}
    return JobRecord(
        job_id=str(client.get_job_id()),
        name=redacted(subject.name),
        written=time.time_ns() // 1_000_000,
        pause=pause,
        status=client.get_job_status().result(0),
        entered=client.get_status_timestamps(),
        restarts=subject.restarts(),
        plan=_masked_plan(plan),
        parallelism={chain.id: subject.parallelism(chain.id) for chain in plan.chains},
        configuration={key: _shown(key, text) for key, text in sorted(subject.configuration.to_dict().items())},
        epochs=tuple(replace(stats, metrics={}) for stats in list(subject.epochs())),
        checkpoints=_masked_checkpoints(client.get_checkpoint_history()),
        exceptions=tuple(map(_masked_exception, client.get_exception_history())),
        metrics=_masked_metrics(client.get_metrics()),
        accumulators={redacted(name): _plain(value) for name, value in client.get_accumulators().result(0).items()},
        hot_keys={uid: _plain_keys(keys) for uid, keys in found.items() if keys is not None},
        log=_log_tail(),
    )


def _shown(key: str, text: str) -> str:
    return REDACTED if is_secret_name(key) else REGISTRY.shown(key, text)


def _plain(value: Any) -> Any:
    """Return a value for JSON, which has no infinity and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return redacted_value("", value)


def _plain_keys(found: HotKeys) -> HotKeys:
    return replace(found, keys=tuple(replace(one, key=_plain(one.key), text=redacted(one.text)) for one in found.keys))


def _masked_plan(plan: JobPlan) -> JobPlan:
    """Return a plan without functions, and without secrets in its texts."""
    chains = tuple(
        replace(
            chain,
            operators=tuple(
                replace(operator, spec=b"", name=redacted(operator.name), description=redacted(operator.description))
                for operator in chain.operators
            ),
        )
        for chain in plan.chains
    )
    edges = tuple(replace(edge, partitioner=b"", description=redacted(edge.description)) for edge in plan.edges)
    return replace(plan, name=redacted(plan.name), chains=chains, edges=edges, settings={})


def _masked_metrics(found: MetricSnapshot) -> MetricSnapshot:
    """Return metrics without secrets in the names of operators, of which each has many metrics."""
    names = {name: redacted(name) for name in {value.operator_name for value in found}}
    values = tuple(value._replace(operator_name=names[value.operator_name]) for value in found)
    return replace(found, job_name=redacted(found.job_name), values=values)


def _masked_checkpoints(history: CheckpointHistory) -> CheckpointHistory:
    return replace(
        history,
        restored=_masked_checkpoint(history.restored) if history.restored else None,
        checkpoints=tuple(map(_masked_checkpoint, history.checkpoints)),
        latest_savepoint=_masked_checkpoint(history.latest_savepoint) if history.latest_savepoint else None,
    )


def _masked_checkpoint(one: CheckpointStatistics) -> CheckpointStatistics:
    return replace(one, path=one.path and redacted(one.path), failure=one.failure and redacted(one.failure))


def _masked_exception(entry: ExceptionEntry) -> ExceptionEntry:
    site = entry.site
    return replace(
        entry,
        exception=redacted(entry.exception),
        message=redacted(entry.message),
        site=replace(site, key=site.key and redacted(site.key), record=site.record and redacted(site.record)),
    )


def _log_tail() -> LogTail | None:
    """Return the last lines of the driver's log, or None if it writes none that can be read."""
    path = log_of_this_process()
    if path is None:
        return None
    try:
        part = read_log(path, _LOG_LINES)
    except OSError:
        return None
    lines = tuple(redacted(line)[:_LONGEST_LINE] for line in part.lines)
    return LogTail(redacted(str(path)), lines, part.skipped)
