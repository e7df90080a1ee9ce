"""Assembles everything a job needs besides an engine and its input.

Spark's executor, the local executor, the job harness and the simulation differ in what runs an epoch, and in where its
input comes from. This module wires up the rest:

1. :func:`open_job`: the job's storage, and the state that it starts from;
2. :class:`JobAssembly`: what all executions of the job share;
3. :meth:`JobAssembly.execution`: a coordinator on an engine, with snapshots, commits and metrics;
4. :meth:`JobAssembly.open_loop`: the loop that runs its epochs;
5. :meth:`JobAssembly.start`: metric reporters, queryable state, and the thread of the job.

Resources are released in reverse order: when the job has ended, or when a later step of its start fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidemill import faults
from tidemill.checkpoint.storage.storages import Storage
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.config import ExecutionOptions, RestartStrategyOptions, StateRecoveryOptions
from tidemill.metrics.registry import MetricRegistry
from tidemill.metrics.reporter import start_reporters
from tidemill.runtime.driver.checkpointing import Checkpointing, CheckpointSettings
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import Engine
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.epoch_loop import EpochLoop
from tidemill.runtime.driver.job import JobOutline, RunningJob, StopSignal
from tidemill.runtime.driver.job_metrics import JobMetrics
from tidemill.runtime.driver.launch import Launch, let_go, open_storage, start_over
from tidemill.runtime.driver.queryable_service import start_queryable_state
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.driver.restarts import restarts_for
from tidemill.runtime.driver.snapshots import MergeRunner, Snapshots
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.observe.epoch_stats import EpochStats
from tidemill.runtime.observe.exception_history import ExceptionHistory
from tidemill.runtime.task.job_bundle import JobBundle

__all__ = ["HarnessSettings", "JobAssembly", "open_job"]


@dataclass(frozen=True)
class HarnessSettings:
    """Settings of a harness that replace the configuration: time, the size of epochs, and when runs are merged.

    Of the checkpoint options only the interval and the pause apply, in the time of ``clock``. Sinks commit in the
    thread of the caller, without a timeout. ``registry`` keeps the metrics of an earlier start.
    """

    clock: Callable[[], int]
    limit: EpochLimit
    fan_in: int
    registry: MetricRegistry | None = None


class JobAssembly:
    """The parts of a job that all its executions in this driver share."""

    def __init__(
        self,
        launch: Launch,
        storage: Storage,
        parallelism: JobParallelism,
        *,
        directory: Path | None = None,
        harness: HarnessSettings | None = None,
    ) -> None:
        """``launch`` includes the starting point; ``directory`` is the directory of the storage, if it is local."""
        configuration = launch.configuration
        # configuration
        self.launch = launch
        self.storage = storage
        self.directory = directory
        self.parallelism = parallelism
        self._harness = harness
        # transient
        if harness is None:
            self.checkpointing = Checkpointing(CheckpointSettings.of(configuration))
            self.clock: Callable[[], int] = launch.clock()
            self.limit = launch.epoch_limit()
        else:
            settings, clock = CheckpointSettings.of(configuration), harness.clock
            self.checkpointing = Checkpointing(
                CheckpointSettings(interval=settings.interval, min_pause=settings.min_pause),
                clock=lambda: clock() / 1000,
            )
            self.clock, self.limit = clock, harness.limit
        self.savepoints = launch.savepoints(storage, self.checkpointing)
        self.metrics = JobMetrics.of(
            launch.job_id,
            launch.plan,
            configuration,
            self.checkpointing,
            registry=None if harness is None else harness.registry,
        )
        self._owner = launch.owner_watch()
        self._running: RunningJob | None = None
        self._stop: StopSignal | None = None
        self._lineage: str | None = None
        #: Whether an execution has processed all input.
        self.finished = False

    def coordinator(
        self, bundle: JobBundle, engine: Engine, *, merge: MergeRunner | None = None, background: bool = False
    ) -> Coordinator:
        """A coordinator that commits the epochs that an engine runs. It closes the engine.

        ``merge`` merges runs on the engine. With ``background``, merges run in a separate thread, concurrently with
        epochs.
        """
        launch, get, harness = self.launch, self.launch.configuration.get, self._harness
        return Coordinator(
            bundle,
            engine,
            self.parallelism,
            launch.committers(),
            clock=self.clock,
            snapshots=Snapshots(
                self.storage,
                merge,
                background=background,
                fan_in=get(ExecutionOptions.EPOCH_SNAPSHOT_INTERVAL) if harness is None else harness.fan_in,
                form=bundle.form,
                pinned=self.savepoints.pinned,
            ),
            allow_non_restored_state=get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
            after=self._lineage,
            on_epoch=self._note,
            checkpointing=self.checkpointing,
            start_from=launch.start_from,
            commit_timeout=launch.commit_timeout() if harness is None else None,
            metrics=self.metrics,
            owner=self._owner,
            limit=self.limit,
        )

    @contextmanager
    def execution(
        self,
        stop: StopSignal,
        bundle: JobBundle,
        engine: Engine,
        *,
        merge: MergeRunner | None = None,
        background: bool = False,
    ) -> Iterator[Coordinator]:
        """One execution of a started job: a :meth:`coordinator` that is closed with its engine when the block ends.

        The next execution continues the lineage of this one.
        """
        self._stop = stop
        with ExitStack() as undo:
            undo.callback(engine.close)
            coordinator = self.coordinator(bundle, engine, merge=merge, background=background)
            undo.pop_all()
        try:
            with stop.interrupting(coordinator.abandon_commits):
                yield coordinator
            self.finished = coordinator.head.finished
        finally:
            self._lineage = coordinator.lineage or self._lineage
            coordinator.close()

    def open_loop(
        self,
        coordinator: Coordinator,
        launch: Launch | None = None,
        open_input: Callable[..., SplitInput] = SplitInput,
    ) -> EpochLoop:
        """The loop over the job's input, starting from the head of an open coordinator.

        ``launch`` is the job's own unless an execution reads its sources in another form. ``open_input`` creates the
        input; it accepts the arguments of :class:`SplitInput`.
        """
        launch = launch or self.launch
        sources = open_input(
            launch.plan,
            launch.split_sources(),
            coordinator.head.sources,
            self.parallelism,
            self.limit,
            whole=launch.plan.runtime_mode == "BATCH",
        )
        pause = launch.configuration.get(ExecutionOptions.EPOCH_MIN_INTERVAL).total_seconds()
        return EpochLoop(coordinator, sources, self.parallelism, self.savepoints, pause=pause)

    def run(
        self,
        coordinator: Coordinator,
        stop: StopSignal,
        launch: Launch | None = None,
        open_input: Callable[..., SplitInput] = SplitInput,
    ) -> None:
        """Run epochs from the last committed one until the sources end or the job is stopped."""
        restored = coordinator.open()
        if restored is not None and restored.finished:
            return
        loop = self.open_loop(coordinator, launch, open_input)
        try:
            loop.run(stop)
        finally:
            loop.close()

    def start(self, name: str, execution: Callable[[StopSignal], None], held: ExitStack) -> RunningJob:
        """Start the job: a thread calls ``execution``, and repeats it after failures according to the restart strategy.

        ``held`` contains all resources of the job. It is empty afterwards: the job releases them when it has ended. If
        this method raises, the caller releases what remains in it.
        """
        launch, configuration = self.launch, self.launch.configuration
        restarts = restarts_for(RestartStrategies.from_configuration(configuration))
        exceptions = ExceptionHistory(configuration.get(RestartStrategyOptions.EXCEPTION_HISTORY_SIZE))
        held.callback(start_reporters(configuration, self.metrics.registry).close)
        # The last step, because the server of a durable job runs until this process ends.
        held.callback(start_queryable_state(configuration, launch.job_id, self.directory))
        released = ExitStack()
        self._running = RunningJob(
            launch.job_id,
            name,
            execution,
            restarts,
            released.close,
            self.parallelism,
            self.checkpointing,
            exceptions,
            self.savepoints,
            self.metrics,
            JobOutline(
                launch.plan,
                configuration,
                self.storage,
                self.parallelism,
                launch.resumes,
                None if launch.checked is None else launch.checked.record,
            ),
            self._owner,
        )
        released.push(held.pop_all())
        try:
            return self._running.start()
        except BaseException:
            released.close()
            raise

    def discard_if_cancelled(self) -> None:
        """Delete the checkpoints of a job that was cancelled, if its configuration requests it."""
        if self._stop is not None and self._stop.is_set():
            let_go(self.launch.configuration, self.storage, self.launch.job_id, self._lineage)

    def _note(self, stats: EpochStats) -> None:
        if self._running is not None:
            self._running.note_epoch(stats)


def open_job(
    launch: Launch,
    default_parallelism: int,
    held: ExitStack,
    check: Callable[[Path | None], object] = lambda directory: None,
) -> JobAssembly:
    """Open the storage of a compiled job, and find the state it starts from. Resources to release go into ``held``.

    ``check`` is called with the directory of the storage before anything is read or deleted there. It raises if the
    job cannot run.
    """
    faults.install_from_environment()
    storage, directory, release = open_storage(launch.configuration, launch.job_id)
    held.callback(release)
    check(directory)
    start_over(launch.configuration, storage, launch.job_id)
    launch = launch.restoring(storage)
    job = JobAssembly(launch, storage, launch.parallelism(default_parallelism), directory=directory)
    held.callback(job.discard_if_cancelled)
    return job
