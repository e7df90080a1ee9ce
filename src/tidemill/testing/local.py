"""``execution.target: local``: a program runs in this process, without Spark, so that breakpoints work in it."""

from __future__ import annotations

import sys
from pathlib import Path

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.config import ExecutionOptions, RestartStrategyOptions, StateRecoveryOptions
from tidemill.datastream.execution import JobProgram
from tidemill.datastream.sources import SplitSource
from tidemill.errors import GraphError
from tidemill.metrics.reporter import start_reporters
from tidemill.runtime.checkpointing import Checkpointing, CheckpointSettings
from tidemill.runtime.coordinator import Coordinator
from tidemill.runtime.epoch_stats import EpochStats
from tidemill.runtime.exception_history import ExceptionHistory
from tidemill.runtime.job import RunningJob, StopSignal
from tidemill.runtime.job_metrics import JobMetrics
from tidemill.runtime.job_outline import JobOutline
from tidemill.runtime.launch import let_go, open_storage, prepare, run_split_job, start_over
from tidemill.runtime.queryable_service import start_queryable_state
from tidemill.runtime.restarts import restarts_for
from tidemill.runtime.snapshots import Snapshots
from tidemill.testing.engine import LocalEngine

#: Subtasks where the program sets no parallelism: two, so that exchanges do something.
DEFAULT_PARALLELISM = 2


class LocalExecutor:
    """Runs programs whose sources are plain Python."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program in a thread of this process."""
        for path in program.python_files:
            _make_importable(path)
        launch = prepare(program, DEFAULT_PARALLELISM)
        for chain, source in launch.sources().items():
            if not isinstance(source, SplitSource):
                raise GraphError(
                    f"source {launch.plan.chains[chain].head.name!r} is read by Spark, which "
                    "execution.target: local does without: leave the option out"
                )
        storage, directory, release = open_storage(self._configuration, launch.job_id)
        try:
            start_over(self._configuration, storage, launch.job_id)
            launch = launch.restoring(storage)
        except BaseException:
            release()
            raise
        bundle = launch.bundle(storage)
        parallelism = launch.parallelism(DEFAULT_PARALLELISM)
        checkpointing = Checkpointing(CheckpointSettings.of(self._configuration))
        savepoints = launch.savepoints(storage, checkpointing)
        metrics = JobMetrics.of(launch.job_id, launch.plan, self._configuration, checkpointing)
        try:
            reporters = start_reporters(self._configuration, metrics.registry)
            end_queries = start_queryable_state(self._configuration, launch.job_id, directory)
        except BaseException:
            release()
            raise
        job: RunningJob
        lineage = ""
        signal: StopSignal | None = None

        def clean_up() -> None:
            try:
                if signal is not None and signal.is_set():
                    let_go(self._configuration, storage, launch.job_id, lineage)
            finally:
                reporters.close()
                end_queries()
                release()

        def attempt(stop: StopSignal) -> None:
            nonlocal lineage, signal
            signal = stop

            def note(stats: EpochStats) -> None:
                job.note_epoch(stats)

            coordinator = Coordinator(
                bundle,
                LocalEngine(bundle, workers=DEFAULT_PARALLELISM),
                parallelism,
                launch.committers(),
                snapshots=Snapshots(
                    storage,
                    background=False,
                    form=bundle.form,
                    pinned=savepoints.pinned,
                    fan_in=self._configuration.get(ExecutionOptions.EPOCH_SNAPSHOT_INTERVAL),
                ),
                allow_non_restored_state=self._configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
                after=lineage or None,
                on_epoch=note,
                checkpointing=checkpointing,
                start_from=launch.start_from,
                commit_timeout=launch.commit_timeout(),
                metrics=metrics,
            )
            try:
                with stop.interrupting(coordinator.abandon_commits):
                    run_split_job(launch, coordinator, parallelism, savepoints, stop)
            finally:
                lineage = coordinator.lineage or lineage
                coordinator.close()

        restarts = restarts_for(RestartStrategies.from_configuration(self._configuration))
        exceptions = ExceptionHistory(self._configuration.get(RestartStrategyOptions.EXCEPTION_HISTORY_SIZE))
        job = RunningJob(
            launch.job_id,
            program.name,
            attempt,
            restarts,
            clean_up,
            parallelism,
            checkpointing,
            exceptions,
            savepoints,
            metrics,
            JobOutline(launch.plan, self._configuration, storage, parallelism),
        )
        return job.start()


def _make_importable(path: str) -> None:
    """Let functions import a file, or what is in a directory or zip, as they can on Spark's workers."""
    given = Path(path).absolute()
    place = str(given.parent if given.suffix == ".py" else given)
    if place not in sys.path:
        sys.path.append(place)
