"""The driver's side of an epoch: what Flink's checkpoint coordinator does, once per epoch.

An epoch is committed in these steps:

1. fix the epoch's context on top of the head manifest;
2. let the engine run all levels as one job, and take the reports of all subtasks;
3. judge them: one consistent cut is published, anything else is run again;
4. publish the manifest: the commit point;
5. commit the sinks' committables, idempotently;
6. now and then merge runs in the background and delete what nobody refers to.

After a crash between 4 and 5 the next lineage finds the committables in its head and commits them (again).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from socket import gethostname
from typing import TypeVar

from tidemill.checkpoint.log import ManifestLog, has_committed
from tidemill.checkpoint.model import Ack, Epoch, Manifest
from tidemill.checkpoint.portable import is_input
from tidemill.checkpoint.protocol import Publish, Verdict, build_manifest, judge
from tidemill.checkpoint.storage import NotFoundError
from tidemill.datastream.sinks import Committer
from tidemill.errors import CheckpointError, CorruptFileError, JobExecutionError, TidemillError
from tidemill.faults import reach
from tidemill.runtime.checkpointing import Checkpointing
from tidemill.runtime.commits import SinkCommits
from tidemill.runtime.engine import Engine, EpochInput
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.epoch_stats import EpochStats
from tidemill.runtime.failures import Failure
from tidemill.runtime.job_bundle import JobBundle
from tidemill.runtime.job_metrics import JobMetrics
from tidemill.runtime.log_place import LogPlace, at
from tidemill.runtime.next_epoch import next_context
from tidemill.runtime.outbox import read_report
from tidemill.runtime.queryable_names import check_queryable_names
from tidemill.runtime.rescaling import JobParallelism
from tidemill.runtime.savepoints import StartingPoint
from tidemill.runtime.snapshots import Snapshots
from tidemill.runtime.subtask_report import committed_counts, entries_of
from tidemill.runtime.upgrade import check_restorable, describe_operators, without_dropped

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How often one epoch is run again because attempts did not fit together, before something is taken to be wrong.
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
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        snapshots: Snapshots | None = None,
        allow_non_restored_state: bool = False,
        after: str | None = None,
        on_epoch: Callable[[EpochStats], None] | None = None,
        checkpointing: Checkpointing | None = None,
        start_from: StartingPoint | None = None,
        commit_timeout: float | None = None,
        metrics: JobMetrics | None = None,
    ) -> None:
        """``commit_timeout`` is how many seconds a sink may take to commit; without one it may take for ever."""
        # configuration
        self._bundle = bundle
        self._plan = bundle.plan
        self._engine = engine
        self._parallelism = parallelism
        self._clock = clock
        self._allow_non_restored = allow_non_restored_state
        self._after = after
        self._on_epoch = on_epoch
        self._metrics = metrics
        self._checkpointing = checkpointing or Checkpointing()
        self._start_from = start_from
        self._log = ManifestLog(bundle.storage, bundle.job_id)
        self._snapshots = snapshots
        self._commits = SinkCommits(bundle, committers, engine.run_commits, engine.interrupt, commit_timeout)
        # transient
        self.lineage = ""
        self._history = ""
        self._next_run = 0

    @property
    def head(self) -> Manifest:
        """The last committed manifest."""
        return self._log.head

    @property
    def manifests(self) -> ManifestLog:
        """The job's manifest log."""
        return self._log

    def open(self) -> Manifest | None:
        """Open a lineage; commits what a former driver published but may not have committed.

        A job that has committed nothing takes over the files of what it starts from first: until the lineage is open it
        has not started. Returns the manifest the job goes on from, or None for a new job. Raises before anything runs
        if the program does not fit the state.
        """
        self._commits.open()
        found = self._log.read_head()
        start_from = None if self._after or has_committed(found) else self._start_from
        if start_from is not None:
            found = start_from.state.manifest
        if found is not None:
            described = self._log.operators_of(found)
            check_restorable(self._plan, found, described, allow_non_restored=self._allow_non_restored)
        if start_from is not None:
            start_from.state.copy_into(self._bundle.storage, wanted=lambda name: not is_input(name))
            reach("restore.copied")
        initial = None if start_from is None else start_from.state.manifest
        lineage, restored = self._log.open_lineage(initial=initial, after=self._after)
        if start_from is not None:
            start_from.claimed()
        self.lineage = lineage
        self._history = self._find_history()
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
        """Run and commit one epoch. Raises what a user function raised; the head is then what it was."""
        with at(LogPlace(self._bundle.job_id, self.head.epoch + 1)):
            return self._run_and_commit(inputs)

    def _run_and_commit(self, inputs: EpochInput) -> Manifest:
        started, triggered = time.perf_counter(), self._clock()
        self._next_run = 0
        reach("offsets.logged")
        try:
            context, verdict = self.tolerating(lambda: self._run(inputs))
            ran = time.perf_counter()
            counted = committed_counts(verdict.acks)
            manifest = self._manifest(context, verdict, inputs, counted)
            self.tolerating(lambda: self._log.publish(manifest))  # 4
            published = time.perf_counter()
            self._checkpointing.completed(manifest, triggered, published - started)
            self._commit(manifest)  # 5
        except Exception:
            # Where another driver cleans up, our tasks fail for want of files: it must not look like our own failure.
            with contextlib.suppress(CheckpointError):
                self._log.check_owner()
            raise
        reach("epoch.done")
        self._parallelism.committed()
        if self._snapshots is not None:
            self._snapshots.after_epoch(self._log)  # 6
        self._tell(manifest, verdict.acks, inputs, started, ran, published)
        return manifest

    def tolerating(self, step: Callable[[], T]) -> T:
        """Do what may be done again if storage fails meanwhile, as often as the job's settings tolerate."""
        while True:
            started, triggered = time.perf_counter(), self._clock()
            try:
                return step()
            except CheckpointError as error:
                with contextlib.suppress(CheckpointError):
                    self._log.check_owner()
                self._checkpointing.failed(error, self.head.epoch + 1, triggered, time.perf_counter() - started)

    def _run(self, inputs: EpochInput) -> tuple[EpochContext, Publish]:
        epoch = Epoch(self.head.epoch + 1)
        reason = ""
        for _ in range(_MOST_RUNS):
            context = self._context(self._next_run, inputs)  # 1
            self._next_run += 1
            with self._checkpointing.timed(epoch, self._engine.interrupt):
                reports = [read_report(report) for report in self._engine.run_epoch(context, inputs)]  # 2
            raise_failure(report for report in reports if isinstance(report, Failure))
            reach("acks.collected")
            acks = [report for report in reports if isinstance(report, Ack)]
            check_queryable_names(self._plan, acks)
            verdict = self._judge(context, acks)  # 3
            if isinstance(verdict, Publish):
                return context, verdict
            reason = verdict.reason
            log.warning("epoch %d is run again: %s", epoch, reason)
        raise JobExecutionError(f"epoch {epoch} did not fit together in {_MOST_RUNS} runs; last: {reason}")

    def note_pending(self, pending: Mapping[str, int]) -> None:
        """So many records wait to be read, by the uid of the source; for metrics."""
        if self._metrics is not None:
            self._metrics.note_pending(pending)

    def timer_due(self) -> bool:
        """Whether a processing-time timer, or an input that is idle by now, waits for an epoch."""
        return self.head.next_timer is not None and self.head.next_timer <= self._clock()

    def abandon_commits(self) -> None:
        """The job is to end: wait for no sink any longer. What it has not committed, the next driver does."""
        self._commits.abandon()

    def close(self) -> None:
        """Stop background work, release the engine's hold on the job, remove what its sinks left, release committers.

        Never raises: what cannot be put away is logged, so that the job ends with its own error.
        """
        steps: list[Callable[[], None]] = [self._engine.close, self._sweep]
        if self._snapshots is not None:
            steps.insert(0, self._snapshots.stop)
        for step in steps:
            try:
                step()
            except Exception as error:
                log.warning("job %s was not put away completely: %s", self._bundle.job_id, error)
        for raised in self._commits.close():
            log.warning("job %s was not put away completely: %s", self._bundle.job_id, raised)

    def _context(self, run: int, inputs: EpochInput) -> EpochContext:
        return next_context(
            self._plan,
            self.head,
            inputs,
            tuple(self._width(chain.id, inputs) for chain in self._plan.chains),
            job_id=self._bundle.job_id,
            lineage=self.lineage,
            history=self._history,
            run=run,
            now=self._clock(),
        )

    def _width(self, chain: int, inputs: EpochInput) -> int:
        if chain in inputs.partitions:
            return max(1, inputs.partitions[chain])
        return self._parallelism.of(chain)

    def _judge(self, context: EpochContext, acks: list[Ack]) -> Verdict:
        chains = self._plan.chains
        expected = {chain.head.uid: context.parallelism[chain.id] for chain in chains}
        edges = {(chains[edge.source_chain].head.uid, chains[edge.target_chain].head.uid) for edge in self._plan.edges}
        return judge(expected, edges, acks, epoch=Epoch(context.epoch), run=context.run)

    def _manifest(
        self, context: EpochContext, verdict: Publish, inputs: EpochInput, counted: Mapping[str, float]
    ) -> Manifest:
        head = self.head
        described = None
        if head.kind == "takeover":
            # What the program does not have is left behind.
            described = describe_operators(self._plan, head)
            if described == head.operators:
                described = None
        manifest = build_manifest(
            head,
            verdict,
            clock=context.clock,
            sources={**without_dropped(head.sources, described), **inputs.positions},
            spark=inputs.spark,
            max_parallelism=None
            if described is None
            else {op.uid: op.max_parallelism for chain in self._plan.chains for op in chain.operators},
            operators=described,
            runs=None if self._snapshots is None else self._snapshots.runs_for(head),
            metrics=counted,
            finished=inputs.last,
            checkpoint=self._checkpointing.due(last=inputs.last),
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
        """Remove what killed attempts of this driver left in the sinks; after a takeover it is the successor's."""
        if self.lineage and self._log.last_slot() == self.head.slot:
            self._commits.discard(self.head, self.lineage)

    def _find_history(self) -> str:
        """What all lineages of this job directory share: the first of them. Takeover records stay for ever."""
        try:
            return self.lineage if self.head.slot == 1 else self._log.read(1).lineage
        except (CorruptFileError, NotFoundError):
            return self.lineage  # nobody else needs the record, so the job must not fail for it

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
        stats = EpochStats(
            epoch=manifest.epoch,
            records_in=int(sum(manifest.metrics.get(f"{uid}.numRecordsOut", 0) for uid in sources)),
            seconds=now - started,
            run_seconds=ran - started,
            publish_seconds=published - ran,
            commit_seconds=now - published,
            delta_bytes=sum(piece.length for piece in manifest.pieces),
            state_entries=entries_of(acks),
            runs=manifest.run + 1,
            metrics=manifest.metrics,
            ended=time.time_ns() // 1_000_000,
        )
        if self._metrics is not None:
            stats = replace(stats, phases=self._metrics.take_epoch(stats, acks, inputs.pending))
        if self._on_epoch is not None:
            self._on_epoch(stats)


def raise_failure(failures: Iterable[Failure]) -> None:
    """Raise the first real failure, if any: consequences of another subtask's failure come last."""
    found = sorted(failures, key=lambda failure: (not failure.primary, failure.chain, failure.subtask))
    if found:
        error: TidemillError = found[0].to_error()
        raise error
