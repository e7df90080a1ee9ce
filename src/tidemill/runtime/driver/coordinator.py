"""The driver's side of an epoch: does what Flink's checkpoint coordinator does, once per epoch.

An epoch is committed in these steps:

1. determine the epoch's context from the head manifest;
2. let the engine run all levels as one job, and collect the reports of all subtasks;
3. validate them: a consistent cut is published, anything else is run again;
4. publish the manifest: the commit point;
5. commit the sinks' committables, idempotently;
6. occasionally merge runs in the background and delete unreferenced files.

After a crash between 4 and 5, the next lineage finds the committables in its head and commits them (again).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from socket import gethostname
from typing import TypeVar

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import read_head
from tidemill.checkpoint.model import Ack, Epoch, Manifest, Piece
from tidemill.checkpoint.portable import is_input
from tidemill.checkpoint.protocol import Publish, Verdict, build_manifest, judge
from tidemill.checkpoint.storage.storages import NotFoundError, Storage
from tidemill.connectors.sinks import Committer
from tidemill.errors import CheckpointError, CorruptFileError, JobExecutionError, TidemillError
from tidemill.faults import reach
from tidemill.runtime.batch.emitted import UnsteadyOutputError
from tidemill.runtime.batch.failures import Failure
from tidemill.runtime.driver.checkpointing import Checkpointing
from tidemill.runtime.driver.commits import SinkCommits
from tidemill.runtime.driver.engine import Engine, EpochInput
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.files_read import begun_name
from tidemill.runtime.driver.job_metrics import JobMetrics
from tidemill.runtime.driver.next_epoch import next_context
from tidemill.runtime.driver.owner_watch import OwnerWatch
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.driver.snapshots import Snapshots
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.exchange.outbox import read_report
from tidemill.runtime.observe.epoch_stats import EpochStats
from tidemill.runtime.observe.log_place import LogPlace, at
from tidemill.runtime.start.reported_names import check_reported_names
from tidemill.runtime.start.starting_point import StartingPoint
from tidemill.runtime.start.upgrade import check_restorable, describe_operators, without_dropped
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.pieces import store_sections
from tidemill.runtime.task.subtask_report import (
    checkpoint_parts,
    committed_counts,
    entries_of,
    reports_of,
    seconds_of_work,
)
from tidemill.runtime.time.processing_clock import ProcessingClock

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How often one epoch is run because its attempts are inconsistent, before the job fails.
_MOST_RUNS = 10


class Coordinator:
    """Commits epochs of one job, one after the other, for one lineage."""

    def __init__(
        self,
        bundle: JobBundle,
        engine: Engine,
        parallelism: JobParallelism,
        committers: Mapping[str, Committer],
        *,
        clock: Callable[[], int] | None = None,
        snapshots: Snapshots | None = None,
        allow_non_restored_state: bool = False,
        after: str | None = None,
        on_epoch: Callable[[EpochStats], None] | None = None,
        checkpointing: Checkpointing | None = None,
        start_from: StartingPoint | None = None,
        commit_timeout: float | None = None,
        metrics: JobMetrics | None = None,
        owner: OwnerWatch | None = None,
        limit: EpochLimit | None = None,
    ) -> None:
        """``clock`` returns the processing time in milliseconds; by default it uses the clock of this machine.

        ``commit_timeout`` is how many seconds a sink may take to commit; without it, there is no limit. ``limit`` is
        updated with the duration of each epoch.
        """
        # configuration
        self._bundle = bundle
        self._plan = bundle.plan
        self._engine = engine
        self._parallelism = parallelism
        self._clock = ProcessingClock() if clock is None else clock
        self._allow_non_restored = allow_non_restored_state
        self._after = after
        self._on_epoch = on_epoch
        self._metrics = metrics
        self._checkpointing = checkpointing or Checkpointing()
        self._start_from = start_from
        self._owner = owner or OwnerWatch()
        self._limit = limit
        self._log = ManifestLog(bundle.storage, bundle.job_id)
        self._snapshots = snapshots
        self._commits = SinkCommits(bundle, committers, engine.run_commits, engine.interrupt, commit_timeout)
        # transient
        self.lineage = ""
        self._history = ""
        self._next_run = 0
        self._is_checkpoint = True
        self._idleness_to_begin = False
        #: Operators whose records have turned out to be mutable.
        self._unsteady: tuple[str, ...] = ()

    @property
    def head(self) -> Manifest:
        """The last committed manifest."""
        return self._log.head

    @property
    def storage(self) -> Storage:
        """The durable storage of the job."""
        return self._bundle.storage

    @property
    def manifests(self) -> ManifestLog:
        """The job's manifest log."""
        return self._log

    @property
    def snapshots(self) -> Snapshots | None:
        """The component that merges runs, if any."""
        return self._snapshots

    def open(self) -> Manifest | None:
        """Open a lineage, and commit what an earlier driver published but may not have committed.

        A job that does not resume from its own last epoch first copies the files of the state it starts from: it has
        not started until the lineage is open. Returns the manifest that the job resumes from, or None for a new job.
        Raises before anything runs if the program is incompatible with the state.
        """
        self._commits.open()
        found = read_head(self._bundle.storage, self._log, self._after)
        start_from = None if self._after else self._start_from
        if start_from is not None and start_from.is_behind(found):
            start_from = None  # a failed execution has already started from there
        if start_from is not None:
            found = start_from.state.manifest
        if found is not None:
            described = self._log.operators_of(found)
            check_restorable(self._plan, found, described, allow_non_restored=self._allow_non_restored)
        if start_from is not None:
            start_from.state.copy_into(self._bundle.storage, wanted=lambda name: not is_input(name))
            reach("restore.copied")
        if start_from is None:
            lineage, restored = self._log.open_lineage(after=self._after)
        else:
            lineage, restored = self._log.open_lineage(initial=start_from.state.manifest, begins=start_from.begins)
        self._owner.claimed(self._log)
        if start_from is not None:
            start_from.claimed()
        self.lineage = lineage
        if isinstance(self._clock, ProcessingClock):
            self._clock.resume(self.head.clock)
        self._history = self._find_history()
        operators = [operator for chain in self._plan.chains for operator in chain.operators]
        self._idleness_to_begin = restored is not None and any(operator.counts_idleness for operator in operators)
        log.info(
            "job %s is run by lineage %s: process %d on %s", self._bundle.job_id, lineage, os.getpid(), gethostname()
        )
        self._checkpointing.restored(restored, self._log.checkpoints)
        self._commits.discard(self.head, lineage)
        self._commit(self.head, again=True)
        if self._snapshots is not None:
            self._snapshots.start(self._log)
        return restored

    def run_epoch(self, inputs: EpochInput) -> Manifest:
        """Run and commit one epoch. Raises what a user function raised; the head is then unchanged."""
        with at(LogPlace(self._bundle.job_id, Epoch(self.head.epoch + 1))):
            return self._run_and_commit(inputs)

    def _run_and_commit(self, inputs: EpochInput) -> Manifest:
        started, triggered = time.perf_counter(), self._clock()
        self._next_run = 0
        self._is_checkpoint = self._checkpointing.begin(last=inputs.last)
        try:
            begun = self.tolerating(lambda: self._begin(inputs))
            if begun:
                reach("files.begun")
            reach("offsets.logged")
            context, verdict = self.tolerating(lambda: self._run(inputs))
            ran = time.perf_counter()
            counted = committed_counts(verdict.acks)
            manifest = self._manifest(context, verdict, inputs, begun, counted)
            self.tolerating(lambda: self._log.publish(manifest))  # 4
            published = time.perf_counter()
            self._checkpointing.completed(
                manifest, triggered, published - started, partial(checkpoint_parts, verdict.acks)
            )
            self._commit(manifest)  # 5
        except Exception:
            # If another driver has taken over and cleans up, tasks fail because of missing files. Report the takeover.
            with contextlib.suppress(CheckpointError):
                self._log.check_owner()
            if self._limit is not None:
                self._limit.failed(seconds=time.perf_counter() - started)
            raise
        reach("epoch.done")
        self._idleness_to_begin = False
        self._parallelism.committed()
        if self._snapshots is not None:
            self._snapshots.after_epoch(self._log)  # 6
        self._tell(manifest, verdict.acks, inputs, started, ran, published)
        return manifest

    def tolerating(self, step: Callable[[], T]) -> T:
        """Run a repeatable step, and retry it after storage failures as often as the job's settings tolerate."""
        while True:
            started, triggered = time.perf_counter(), self._clock()
            try:
                return step()
            except CheckpointError as error:
                with contextlib.suppress(CheckpointError):
                    self._log.check_owner()
                self._checkpointing.failed(error, Epoch(self.head.epoch + 1), triggered, time.perf_counter() - started)

    def _begin(self, inputs: EpochInput) -> tuple[Piece, ...]:
        """Store what the epoch adds to the state of sources before it runs, so that the next driver finds it."""
        pieces = []
        for uid, section in inputs.state.items():
            name = begun_name(self.lineage, Epoch(self.head.epoch + 1), uid, uuid.uuid4().hex)
            form = replace(self._bundle.form, inline_limit=0)
            piece = store_sections(self._bundle.storage, [section], subtask=0, chain=uid, name=name, form=form)
            pieces += [] if piece is None else [piece]
        return tuple(pieces)

    def _run(self, inputs: EpochInput) -> tuple[EpochContext, Publish]:
        epoch = Epoch(self.head.epoch + 1)
        reason = ""
        operators = sum(len(chain.operators) for chain in self._plan.chains)
        for _ in range(_MOST_RUNS + operators):  # each operator may turn out to be unsteady once
            context = self._context(self._next_run, inputs)  # 1
            self._next_run += 1
            with self._checkpointing.timed(epoch, self._engine.interrupt):
                reports = [read_report(report) for report in self._engine.run_epoch(context, inputs)]  # 2
            failures = [report for report in reports if isinstance(report, Failure)]
            unsteady = {failure.site.uid: failure for failure in failures if failure.site and _is_unsteady(failure)}
            if unsteady.keys() - set(self._unsteady):
                self._unsteady = (*self._unsteady, *sorted(unsteady.keys() - set(self._unsteady)))
                reason = next(iter(unsteady.values())).message
                log.info("epoch %d is run again: %s", epoch, reason)
                continue
            raise_failure(failures)
            reach("acks.collected")
            acks = [report for report in reports if isinstance(report, Ack)]
            check_reported_names(self._plan, acks)
            verdict = self._judge(context, acks)  # 3
            if isinstance(verdict, Publish):
                return context, verdict
            reason = verdict.reason
            log.warning("epoch %d is run again: %s", epoch, reason)
        raise JobExecutionError(f"epoch {epoch} produced no consistent result in {_MOST_RUNS} runs; last: {reason}")

    def note_pending(self, pending: Mapping[str, int]) -> None:
        """Record how many records are waiting to be read, by the uid of the source; for metrics."""
        if self._metrics is not None:
            self._metrics.note_pending(pending)

    def check_owner(self) -> None:
        """Raise :class:`FencedError` if another driver has taken over the job. To be called while the job is idle."""
        self._owner.look()

    def timer_due(self) -> bool:
        """Whether an epoch is needed for a processing-time timer, or for an input that has become idle.

        The time without records is measured from the first epoch of a driver. The restored state may not contain it:
        the program may have configured idleness only now, or with another timeout.
        """
        if self._idleness_to_begin:
            return True
        return self.head.next_timer is not None and self.head.next_timer <= self._clock()

    def abandon_commits(self) -> None:
        """Stop waiting for sinks, because the job is ending. The next driver commits what is not committed."""
        self._commits.abandon()

    def close(self) -> None:
        """Stop background work, close the engine, remove leftovers of sinks, close committers.

        Never raises: errors during the cleanup are logged, so that the job ends with its own error.
        """
        steps: list[Callable[[], None]] = [self._engine.close, self._sweep]
        if self._snapshots is not None:
            steps.insert(0, self._snapshots.stop)
        for step in steps:
            try:
                step()
            except Exception as error:
                log.warning("job %s was not cleaned up completely: %s", self._bundle.job_id, error)
        for raised in self._commits.close():
            log.warning("job %s was not cleaned up completely: %s", self._bundle.job_id, raised)

    def _context(self, rerun: int, inputs: EpochInput) -> EpochContext:
        context = next_context(
            self._plan,
            self.head,
            inputs,
            tuple(self._width(chain.id, inputs) for chain in self._plan.chains),
            job_id=self._bundle.job_id,
            lineage=self.lineage,
            history=self._history,
            rerun=rerun,
            now=self._clock(),
            checkpoint=self._is_checkpoint,
            seconds_to_next=self._checkpointing.seconds_to_next(checkpoint=self._is_checkpoint),
        )
        return replace(context, unsteady=self._unsteady)

    def _width(self, chain: int, inputs: EpochInput) -> int:
        if chain in inputs.partitions:
            return max(1, inputs.partitions[chain])
        return self._parallelism.of(chain)

    def _judge(self, context: EpochContext, acks: list[Ack]) -> Verdict:
        chains = self._plan.chains
        expected = {chain.head.uid: context.parallelism[chain.id] for chain in chains}
        edges = {(chains[edge.source_chain].head.uid, chains[edge.target_chain].head.uid) for edge in self._plan.edges}
        return judge(expected, edges, acks, epoch=Epoch(context.epoch), rerun=context.rerun)

    def _manifest(
        self,
        context: EpochContext,
        verdict: Publish,
        inputs: EpochInput,
        begun: tuple[Piece, ...],
        counted: Mapping[str, float],
    ) -> Manifest:
        head = self.head
        described = None
        if head.kind == "takeover":
            # The state of operators that are not part of the program is dropped.
            described = describe_operators(self._plan, head)
            if described == head.operators:
                described = None
        manifest = build_manifest(
            head,
            verdict,
            clock=context.processing_time,
            sources={**without_dropped(head.sources, described), **inputs.positions},
            spark=inputs.spark,
            of_sources=begun,
            max_parallelism=None
            if described is None
            else {op.uid: op.max_parallelism for chain in self._plan.chains for op in chain.operators},
            operators=described,
            runs=None if self._snapshots is None else self._snapshots.runs_for(head),
            metrics=counted,
            finished=inputs.last,
            checkpoint=self._is_checkpoint,
            retain=self._checkpointing.retain,
        )
        self._checkpointing.check_size(manifest)
        return manifest

    def _commit(self, manifest: Manifest, *, again: bool = False) -> None:
        if not manifest.committables:
            return
        reach("sink.commit.before")
        self._log.check_next_slot()
        self._commits.commit(manifest, again=again, may_be_gone=again and self._allow_non_restored)
        reach("sink.commit.after")

    def _sweep(self) -> None:
        """Remove what killed attempts of this driver left in the sinks. After a takeover, the successor does this."""
        if self.lineage and self._log.last_slot() == self.head.slot:
            self._commits.discard(self.head, self.lineage)

    def _find_history(self) -> str:
        """The first lineage of the job's current history, which identifies it. Takeover records are never deleted."""
        if self.head.history:
            return self.head.history["lineage"]
        try:
            return self.lineage if self.head.slot == 1 else self._log.read(1).lineage
        except (CorruptFileError, NotFoundError):
            return self.lineage  # nothing else needs the record, so the job must not fail because of it

    def _tell(
        self,
        manifest: Manifest,
        acks: Sequence[Ack],
        inputs: EpochInput,
        started: float,
        ran: float,
        published: float,
    ) -> None:
        now = time.perf_counter()
        sources = [chain.head.uid for chain in self._plan.chains if chain.head.inputs == 0]
        read = [count for uid in sources if (count := int(manifest.metrics.get(f"{uid}.numRecordsOut", 0)))]
        stats = EpochStats(
            epoch=manifest.epoch,
            records_in=sum(read),
            seconds=now - started,
            run_seconds=ran - started,
            publish_seconds=published - ran,
            commit_seconds=now - published,
            delta_bytes=sum(piece.length for piece in manifest.pieces),
            state_entries=entries_of(acks),
            runs=manifest.rerun + 1,
            metrics=manifest.metrics,
            ended=time.time_ns() // 1_000_000,
        )
        if self._limit is not None:
            seconds = self._seconds_for_records(stats, acks)
            self._limit.committed(records=stats.records_in, sources=len(read), seconds=seconds)
        if self._metrics is not None:
            stats = replace(stats, phases=self._metrics.take_epoch(stats, acks, inputs))
        if self._on_epoch is not None:
            self._on_epoch(stats)

    def _seconds_for_records(self, stats: EpochStats, acks: Sequence[Ack]) -> float:
        """The duration of an epoch. If it started workers or built chains, only the work of subtasks after that."""
        if not any(report.cold for report in reports_of(acks)):
            return stats.seconds / stats.runs
        return seconds_of_work(acks, {chain.head.uid: chain.level for chain in self._plan.chains})


def _is_unsteady(failure: Failure) -> bool:
    return failure.kind == UnsteadyOutputError.__name__


def raise_failure(failures: Iterable[Failure]) -> None:
    """Raise the first primary failure, if any; consequences of another subtask's failure have the lowest priority."""
    found = sorted(failures, key=lambda failure: (not failure.primary, failure.chain, failure.subtask))
    if found:
        error: TidemillError = found[0].to_error()
        raise error
