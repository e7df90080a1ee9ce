"""The metrics of a job in the driver: a registry that is updated with each committed epoch.

How time is attributed: an epoch is one Spark job, so a subtask does not run all the time. Between epochs it waits for
upstream subtasks, for the commit, or for input. In the interval from the end of the previous epoch to the end of this
one, a subtask is

- *busy* while it reads a split, processes records, or loads or writes state;
- *back-pressured* while the engine does not accept its parcels and, for a source that has more input, from the time it
  has read its share until the epoch is committed: it would continue if the downstream subtasks were done;
- *idle* otherwise.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from tidemill.checkpoint.model import Ack, SubtaskId
from tidemill.common.configuration import Configuration
from tidemill.common.reports.metric_value import MetricScope
from tidemill.config import ExecutionOptions, MetricOptions
from tidemill.graph.plan import ChainPlan, JobPlan
from tidemill.metrics.registry import MetricPlace, MetricRegistry, Series
from tidemill.runtime.driver.checkpointing import Checkpointing
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.observe.epoch_stats import EpochStats
from tidemill.runtime.observe.hot_keys import JobHotKeys
from tidemill.runtime.observe.metrics import OperatorReport
from tidemill.runtime.task.subtask_report import SubtaskReport
from tidemill.state.keys.key_groups import Subtask

_MS: Final = 1_000_000
#: A source that has read at least this fraction of an epoch's maximum number of records is assumed to have more input.
_FULL: Final = 0.9

_JOB: Final = MetricPlace()
_TASK_COUNTS: Final = (
    "numRecordsIn",
    "numRecordsOut",
    "numBytesIn",
    "numBytesOut",
    "numColdStarts",
    "accumulateBusyTimeMs",
    "accumulateBackPressuredTimeMs",
    "accumulateIdleTimeMs",
)


class JobMetrics:
    """Updates a registry over all executions of a job. Only the job's thread updates it; any thread may read it."""

    def __init__(
        self,
        registry: MetricRegistry,
        plan: JobPlan,
        *,
        max_records: int,
        hot_keys: bool = True,
        checkpointing: Checkpointing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``max_records`` is the maximum number of records per source and epoch; ``hot_keys``: keys are sampled."""
        # configuration
        self.registry = registry
        self._max_records = max_records
        self._clock = clock
        self._chains = {chain.head.uid: chain for chain in plan.chains}
        # transient
        self.hot_keys = JobHotKeys([uid for uid, chain in self._chains.items() if chain.head.keyed and hot_keys])
        self._epoch_ended: float | None = None
        #: The counters of each subtask of tasks and operators, by name: looked up once, updated in each epoch.
        self._tasks: dict[SubtaskId, dict[str, Series]] = {}
        self._operators: dict[tuple[str, int], dict[str, Series]] = {}
        self._widths: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._last_records: dict[str, float] = {}
        for chain in plan.chains:
            registry.name(MetricScope.TASK, chain.head.uid, chain.name)
            for operator in chain.operators:
                registry.name(MetricScope.OPERATOR, operator.uid, operator.name)
            if chain.head.inputs == 0:
                self._watch_source(chain.head.uid)
            if chain.head.keyed and hot_keys:
                share = partial(self.hot_keys.hottest_share, chain.head.uid)
                registry.gauge(MetricPlace(MetricScope.OPERATOR, chain.head.uid), "hottestKeyShare", share)
        if checkpointing is not None:
            self._watch_checkpoints(checkpointing)

    @classmethod
    def of(
        cls,
        job_id: str,
        plan: JobPlan,
        configuration: Configuration,
        checkpointing: Checkpointing | None = None,
        registry: MetricRegistry | None = None,
    ) -> JobMetrics:
        """The metrics of a job according to its configuration; ``registry`` continues those of an earlier start."""
        get = configuration.get
        return cls(
            registry or MetricRegistry(job_id, plan.name, most_subtasks=get(MetricOptions.MAX_SUBTASKS)),
            plan,
            max_records=get(ExecutionOptions.EPOCH_MAX_RECORDS),
            hot_keys=get(MetricOptions.HOT_KEYS),
            checkpointing=checkpointing,
        )

    def job_gauge(self, name: str, ask: Callable[[], float | None]) -> None:
        """Register a metric of the job whose value is computed on request."""
        self.registry.gauge(_JOB, name, ask)

    def source_gauge(self, uid: str, name: str, ask: Callable[[], float | None]) -> None:
        """Register a metric of a source whose value is computed on request."""
        self.registry.gauge(MetricPlace(MetricScope.OPERATOR, uid), name, ask)

    def note_pending(self, pending: Mapping[str, int]) -> None:
        """Record how many records are waiting to be read, by the uid of the source."""
        self._pending.update(pending)
        for uid, records in pending.items():
            self.registry.gauge(MetricPlace(MetricScope.OPERATOR, uid), "pendingRecords", records)

    def take_epoch(self, stats: EpochStats, acks: Sequence[Ack], inputs: EpochInput) -> dict[str, float]:
        """Add the counts of a committed epoch; return the time spent in each phase."""
        phases = phases_of(stats, acks, self._chains)
        now = self._clock()
        interval = stats.seconds if self._epoch_ended is None else now - self._epoch_ended
        self._epoch_ended = now
        with self.registry.update():
            self.note_pending(inputs.pending)
            self._take_job(stats, phases)
            read: dict[str, int] = defaultdict(int)
            widths: dict[str, int] = defaultdict(int)
            for ack in acks:
                if isinstance(ack.report, SubtaskReport):
                    uid = ack.subtask.chain
                    widths[uid] += 1
                    read[uid] += ack.report.records_in
            self._note_widths(widths)
            for ack in acks:
                if isinstance(ack.report, SubtaskReport):
                    uid = ack.subtask.chain
                    if self._chains[uid].head.inputs == 0 and read[uid]:
                        self._last_records[uid] = now
                    held_up = self._is_full(uid, read[uid], inputs.max_records)
                    self._take_task(ack, ack.report, stats.seconds, max(interval, stats.seconds), held_up=held_up)
                    for operator in ack.report.operators:
                        self._take_operator(operator, ack.subtask.subtask)
        return phases

    def _is_full(self, uid: str, read: int, max_records: int | None) -> bool:
        """Whether a chain's source had more input than its epoch took."""
        if self._chains[uid].head.inputs:
            return False
        return self._pending.get(uid, 0) > 0 or read >= _FULL * (max_records or self._max_records)

    def _note_widths(self, widths: Mapping[str, int]) -> None:
        for uid, width in widths.items():
            if uid not in self._widths or width < self._widths[uid]:
                operators = frozenset(operator.uid for operator in self._chains[uid].operators)
                self.registry.forget_gauges(operators, width)
                self.hot_keys.forget(operators, width)
            self._widths[uid] = width

    def _take_job(self, stats: EpochStats, phases: Mapping[str, float]) -> None:
        registry = self.registry
        registry.gauge(_JOB, "currentEpoch", stats.epoch)
        registry.count(_JOB, "numEpochs", 1)
        registry.count(_JOB, "numEpochRuns", stats.runs)
        registry.observe(_JOB, "epochDuration", stats.seconds * 1000)
        for phase, millis in phases.items():
            registry.observe(_JOB, "epochPhaseTime", millis, (("phase", phase),))

    def _take_task(self, ack: Ack, report: SubtaskReport, epoch: float, interval: float, *, held_up: bool) -> None:
        registry, place = self.registry, MetricPlace(MetricScope.TASK, ack.subtask.chain, ack.subtask.subtask)
        known = self._tasks.get(ack.subtask)
        if known is None:
            known = self._tasks[ack.subtask] = {name: registry.series(place, name) for name in _TASK_COUNTS}
        known["numRecordsIn"].add(report.records_in)
        known["numRecordsOut"].add(report.records_out)
        known["numBytesIn"].add(report.bytes_in)
        known["numBytesOut"].add(report.bytes_out)
        known["numColdStarts"].add(report.cold)
        registry.gauge(place, "lastDeltaSize", sum(piece.length for piece in ack.pieces))
        # A subtask may have started before the interval, if an epoch was run again.
        all_of_it = interval * 1000
        busy = min(report.busy / _MS, all_of_it)
        held = report.sent / _MS + (max(0.0, epoch * 1000 - report.total / _MS) if held_up else 0.0)
        held = min(held, all_of_it - busy)
        for kind, millis in (("Busy", busy), ("BackPressured", held), ("Idle", all_of_it - busy - held)):
            known[f"accumulate{kind}TimeMs"].add(millis)
            share = millis / interval if interval else 0.0
            registry.gauge(place, f"{kind[0].lower()}{kind[1:]}TimeMsPerSecond", share)

    def _take_operator(self, report: OperatorReport, subtask: Subtask) -> None:
        registry, place = self.registry, MetricPlace(MetricScope.OPERATOR, report.uid, subtask)
        known = self._operators.setdefault((report.uid, subtask), {})
        for identifier, count in report.counts.items():
            series = known.get(identifier)
            if series is None:
                name, variables = report.variables.get(identifier, (identifier, ()))
                span = report.spans.get(identifier)
                series = known[identifier] = registry.series(place, name, span=span, variables=variables)
            series.add(count)
        for identifier, value in report.gauges.items():
            name, variables = report.variables.get(identifier, (identifier, ()))
            registry.gauge(place, name, value, variables)
        if report.hot_keys is not None:
            self.hot_keys.take(report.uid, subtask, report.hot_keys)
        for identifier, values in report.summaries.items():
            name, variables = report.variables.get(identifier, (identifier, ()))
            # One summary for all subtasks: their values are comparable, and one series per bucket is already a lot.
            registry.summary(place._replace(subtask=None), name, values, variables)
        for state, (entries, size) in report.states.items():
            variables = (("state", state),) if state else ()
            registry.gauge(place, "stateEntries", entries, variables)
            if size is not None:
                registry.gauge(place, "stateBytes", size, variables)

    def _watch_source(self, uid: str) -> None:
        def idle() -> float | None:
            last = self._last_records.get(uid)
            return None if last is None else (self._clock() - last) * 1000

        self.registry.gauge(MetricPlace(MetricScope.OPERATOR, uid), "sourceIdleTime", idle)

    def _watch_checkpoints(self, checkpointing: Checkpointing) -> None:
        history = checkpointing.history

        def of_last(attribute: str) -> Callable[[], float | None]:
            def ask() -> float | None:
                last = history().latest_completed
                return None if last is None else float(getattr(last, attribute))

            return ask

        self.job_gauge("numberOfCompletedCheckpoints", lambda: history().completed)
        self.job_gauge("numberOfFailedCheckpoints", lambda: history().failed)
        self.job_gauge("totalNumberOfCheckpoints", lambda: history().completed + history().failed)
        self.job_gauge("lastCompletedCheckpointId", of_last("checkpoint_id"))
        self.job_gauge("lastCheckpointDuration", of_last("duration"))
        self.job_gauge("lastCheckpointSize", of_last("incremental_size"))
        self.job_gauge("lastCheckpointFullSize", of_last("state_size"))


def phases_of(stats: EpochStats, acks: Sequence[Ack], chains: Mapping[str, ChainPlan]) -> dict[str, float]:
    """The time spent in each phase of an epoch, in milliseconds: on each level the slowest subtask counts.

    ``source``: reading input. ``load``: preparing chains, which takes long only if state is loaded. ``compute``:
    processing. ``exchange``: sending parcels and waiting for them. ``delta``: writing changes. ``commit``: the manifest
    and the sinks. ``other``: the engine's own time, and the overhead of subtasks that wait for each other.
    """
    slowest: dict[tuple[int, str], int] = defaultdict(int)
    for ack in acks:
        report = ack.report
        if not isinstance(report, SubtaskReport):
            continue
        level = chains[ack.subtask.chain].level
        for phase, nanos in (
            ("load", report.loaded),
            ("compute", report.computed),
            ("delta", report.wrote),
            ("source", report.read + (0 if level else report.waited)),
            ("exchange", report.sent + (report.waited if level else 0)),
        ):
            slowest[level, phase] = max(slowest[level, phase], nanos)
    phases = dict.fromkeys(("source", "load", "compute", "exchange", "delta"), 0.0)
    for (_, phase), nanos in slowest.items():
        phases[phase] += nanos / _MS
    phases["commit"] = (stats.publish_seconds + stats.commit_seconds) * 1000
    phases["other"] = max(0.0, stats.seconds * 1000 - sum(phases.values()))
    return phases
