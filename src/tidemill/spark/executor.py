"""``execution.target: spark``: a program runs on Spark, in the session that is there or in one of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

from tidemill import faults
from tidemill.checkpoint.log import ManifestLog, has_committed
from tidemill.checkpoint.storage import Storage
from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.config import (
    CheckpointingOptions,
    ExecutionOptions,
    PipelineOptions,
    RestartStrategyOptions,
    StateRecoveryOptions,
)
from tidemill.datastream.connectors.kafka.source import KafkaSource
from tidemill.datastream.execution import JobProgram
from tidemill.datastream.sources import ClockOf, Source, SparkSource
from tidemill.datastream.specs import SourceSpec
from tidemill.errors import ConfigurationError
from tidemill.graph.plan import JobPlan
from tidemill.metrics.reporter import start_reporters
from tidemill.runtime.checkpointing import Checkpointing, CheckpointSettings
from tidemill.runtime.coordinator import Coordinator
from tidemill.runtime.epoch_stats import EpochStats
from tidemill.runtime.exception_history import ExceptionHistory
from tidemill.runtime.job import RunningJob, StopSignal
from tidemill.runtime.job_metrics import JobMetrics
from tidemill.runtime.job_outline import JobOutline
from tidemill.runtime.launch import Launch, let_go, open_storage, prepare, run_split_job, start_over
from tidemill.runtime.queryable_service import start_queryable_state
from tidemill.runtime.restarts import restarts_for
from tidemill.runtime.snapshots import Snapshots
from tidemill.spark.cluster import check_workers, cores_of
from tidemill.spark.engine import SparkEngine
from tidemill.spark.event_time import has_event_time
from tidemill.spark.frames import frame_of
from tidemill.spark.job_locations import SparkLocations, open_locations
from tidemill.spark.kafka import check_source
from tidemill.spark.locations import positioned
from tidemill.spark.parquet_input import ParquetSource, materialise, remove_input
from tidemill.spark.session import is_lost
from tidemill.spark.session_lease import SessionLease
from tidemill.spark.streaming import StreamingInput, run_streaming_job
from tidemill.spark.strict_files import misfit_error


class SparkExecutor:
    """Runs programs on Spark."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program; epochs run in a thread of this process, tasks on Spark."""
        faults.install_from_environment()
        with ExitStack() as undo:
            lease = SessionLease(self._configuration)
            undo.callback(lease.release)
            try:
                run = self._prepare(program, lease, undo)
            except Exception as error:
                if is_lost(lease.session.sparkContext):
                    raise lease.loss() from error
                raise
            undo.callback(run.clean_up)
            undo.callback(start_reporters(self._configuration, run.metrics.registry).close)
            restarts = restarts_for(RestartStrategies.from_configuration(self._configuration))
            exceptions = ExceptionHistory(self._configuration.get(RestartStrategyOptions.EXCEPTION_HISTORY_SIZE))
            cleanup = undo.pop_all().close
        job = RunningJob(
            run.job_id,
            program.name,
            run.attempt,
            restarts,
            cleanup,
            run.parallelism,
            run.checkpointing,
            exceptions,
            run.savepoints,
            run.metrics,
            run.outline,
        )
        run.note_epoch = job.note_epoch
        return job.start()

    def _prepare(self, program: JobProgram, lease: SessionLease, undo: ExitStack) -> _SparkJob:
        session, context = lease.session, lease.session.sparkContext
        if self._configuration.get(CheckpointingOptions.DIRECTORY) is None and not str(context.master).startswith(
            "local"
        ):
            raise ConfigurationError(
                f"a job on {context.master} needs execution.checkpointing.dir: a directory that the driver and all "
                "executors share, or a URI of an object store"
            )
        for path in program.python_files:
            context.addPyFile(path)
        slots = cores_of(context)
        configured = self._configuration.contains(PipelineOptions.PARALLELISM)
        parallelism = self._configuration.get(PipelineOptions.PARALLELISM) if configured else slots
        launch = prepare(program, parallelism)
        storage, directory, release = open_storage(self._configuration, launch.job_id)
        undo.callback(release)
        check_workers(context, directory)
        for source in launch.sources().values():
            if isinstance(source, KafkaSource):
                check_source(session, source)
        start_over(self._configuration, storage, launch.job_id)
        launch = launch.restoring(storage)
        undo.callback(start_queryable_state(self._configuration, launch.job_id, directory))
        return _SparkJob(
            lease, program.python_files, launch, storage, directory, parallelism, slots, self._configuration
        )


class _SparkJob:
    """The attempts of one job on Spark."""

    def __init__(
        self,
        lease: SessionLease,
        python_files: Sequence[str],
        launch: Launch,
        storage: Storage,
        directory: Path | None,
        parallelism: int,
        slots: int,
        configuration: Configuration,
    ) -> None:
        self._lease = lease
        self._python_files = python_files
        self._launch = launch
        self.job_id = launch.job_id
        self._storage = storage
        self._directory = directory
        self._default = parallelism
        self.parallelism = launch.parallelism(parallelism)
        self._cores = slots
        self._configuration = configuration
        self.checkpointing = Checkpointing(CheckpointSettings.of(configuration))
        self.savepoints = launch.savepoints(storage, self.checkpointing)
        self.metrics = JobMetrics.of(launch.job_id, launch.plan, configuration, self.checkpointing)
        self.outline = JobOutline(launch.plan, configuration, storage, self.parallelism)
        self._locations: SparkLocations | None = None
        self._finished = False
        self._lineage: str | None = None
        self._stop: StopSignal | None = None
        self.note_epoch: Any = None

    def attempt(self, stop: StopSignal) -> None:
        """Run the job from its last committed epoch until it ends."""
        self._stop = stop
        if is_lost(self._session.sparkContext):
            self._begin_anew()
        context, group = self._session.sparkContext, f"tidemill-{self.job_id}"
        try:
            context.setJobGroup(group, self._launch.plan.name, interruptOnCancel=False)
            with stop.interrupting(partial(context.cancelJobGroup, group)):
                self._run(stop)
        except Exception as error:
            if is_lost(context):
                raise self._lease.loss() from error
            chains = self._launch.plan.chains
            sources = {chains[chain].head.uid: source for chain, source in self._launch.sources().items()}
            misfit = misfit_error(self._session, sources, error)
            if misfit is not None:
                raise misfit from error
            raise

    @property
    def _session(self) -> SparkSession:
        return self._lease.session

    def _begin_anew(self) -> None:
        """Have another Spark in the place of one that has died."""
        context = self._lease.renew().sparkContext
        for path in self._python_files:
            context.addPyFile(path)
        cores_of(context)  # waits for executors
        check_workers(context, self._directory)

    def _run(self, stop: StopSignal) -> None:
        context = self._session.sparkContext
        streaming = self._streaming_sources()
        self._launch.bring_input(self._storage)
        launch = self._with_parquet(streaming)
        inputs = StreamingInput(self._session, launch, streaming, self._positioned()) if streaming else None
        bundle = launch.bundle(self._storage, inputs.schemas() if inputs else {})
        with ExitStack() as undo:
            engine = SparkEngine(context, bundle, self._cores, inputs.combined_schema() if inputs else None)
            undo.callback(engine.close)
            coordinator = Coordinator(
                bundle,
                engine,
                self.parallelism,
                launch.committers(),
                snapshots=Snapshots(
                    self._storage,
                    engine.merge,
                    fan_in=self._get(ExecutionOptions.EPOCH_SNAPSHOT_INTERVAL),
                    form=bundle.form,
                    pinned=self.savepoints.pinned,
                ),
                allow_non_restored_state=self._get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
                after=self._lineage,
                on_epoch=self._note,
                checkpointing=self.checkpointing,
                start_from=launch.start_from,
                commit_timeout=launch.commit_timeout(),
                metrics=self.metrics,
            )
            undo.pop_all()  # from here on the coordinator puts all of it away
        try:
            with stop.interrupting(coordinator.abandon_commits):
                if inputs is None:
                    run_split_job(launch, coordinator, self.parallelism, self.savepoints, stop)
                else:
                    run_streaming_job(
                        inputs, coordinator, self.parallelism, self.savepoints, self._open_locations(), stop
                    )
            self._finished = coordinator.head.finished
        finally:
            self._lineage = coordinator.lineage or self._lineage
            coordinator.close()

    def clean_up(self) -> None:
        """Remove the materialised input of a job that has read all of it, or all of a cancelled one if so asked."""
        if self._stop is not None and self._stop.is_set():
            let_go(self._configuration, self._storage, self.job_id, self._lineage)
        if self._locations is not None:
            self._locations.close()
        if self._finished:
            remove_input(self._storage)

    def _positioned(self) -> Collection[str]:
        """The uids of the streaming sources that Spark has a position for."""
        head = ManifestLog(self._storage, self.job_id).read_head()
        start = self._launch.start_from
        manifest = head if has_committed(head) or start is None else start.state.manifest
        return positioned(None if manifest is None else manifest.spark)

    def _open_locations(self) -> SparkLocations:
        """Where Spark's query keeps its checkpoint locations; one place for all attempts."""
        if self._locations is None:
            self._locations = open_locations(self._storage, self._directory)
        return self._locations

    def _note(self, stats: EpochStats) -> None:
        if self.note_epoch is not None:
            self.note_epoch(stats)

    def _get(self, option: Any) -> Any:
        return self._configuration.get(option)

    def _streaming_sources(self) -> dict[int, Source]:
        return {
            chain: source
            for chain, source in self._launch.sources().items()
            if isinstance(source, SparkSource) and not source.ends
        }

    def _with_parquet(self, streaming: dict[int, Source]) -> Launch:
        """The launch with each bounded Spark source replaced by its materialised rows."""
        launch = self._launch
        chains = list(launch.plan.chains)
        operators = dict(launch.operators)
        for chain, source in launch.sources().items():
            if chain in streaming or not isinstance(source, SparkSource):
                continue
            head = chains[chain].head
            frame = partial(frame_of, self._session, source, 0)
            folder = materialise(frame, self._storage, head.uid)
            strategy = operators[head.uid].spec.watermarks
            has_time = launch.plan.runtime_mode != "BATCH" and has_event_time(chains[chain], operators)
            parquet = ParquetSource(
                self._storage,
                folder,
                source.type_info,
                source.partition_by,
                source.decoder,
                has_time=has_time,
                strategy=strategy,
            )
            spec = SourceSpec(parquet, strategy)
            replaced = replace(head, spec=cloudpickle.dumps(spec))
            chains[chain] = replace(
                chains[chain],
                operators=(replaced, *chains[chain].operators[1:]),
                parallelism=self._default,
                clock_of=ClockOf.PARTITION if has_time else chains[chain].clock_of,
            )
            operators[head.uid] = replace(operators[head.uid], spec=spec)
        plan: JobPlan = replace(launch.plan, chains=tuple(chains))
        return replace(launch, plan=plan, operators=operators)
