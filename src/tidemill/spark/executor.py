"""``execution.target: spark``: a program runs on Spark, in the session that is there or in one of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

from tidemill import faults
from tidemill.checkpoint.names import input_prefix
from tidemill.checkpoint.storage import Storage
from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.config import ExecutionOptions, PipelineOptions, StateOptions, StateRecoveryOptions
from tidemill.datastream.execution import JobProgram
from tidemill.datastream.sources import DataFrameSource, FormatSource, Source
from tidemill.datastream.specs import SourceSpec
from tidemill.errors import ConfigurationError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.coordinator import Coordinator, EpochStats
from tidemill.runtime.job import RunningJob, StopSignal
from tidemill.runtime.launch import Launch, open_storage, prepare, run_split_job
from tidemill.runtime.restarts import restarts_for
from tidemill.runtime.snapshots import Snapshots
from tidemill.spark.engine import SparkEngine
from tidemill.spark.frames import frame_of
from tidemill.spark.parquet_input import ParquetSource, materialise
from tidemill.spark.session import session_for
from tidemill.spark.streaming import StreamingInput, run_streaming_job


class SparkExecutor:
    """Runs programs on Spark."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program; epochs run in a thread of this process, tasks on Spark."""
        faults.install_from_environment()
        session, owned = session_for(self._configuration)
        for path in program.python_files:
            session.sparkContext.addPyFile(path)
        slots = session.sparkContext.defaultParallelism
        configured = self._configuration.contains(PipelineOptions.PARALLELISM)
        parallelism = self._configuration.get(PipelineOptions.PARALLELISM) if configured else slots
        launch = prepare(program, parallelism)
        storage, directory, release = open_storage(self._configuration, launch.job_id)
        if directory is None:
            raise ConfigurationError("this version keeps checkpoints in directories all executors can see")
        run = _SparkJob(session, launch, storage, directory, parallelism, slots, self._configuration)

        def cleanup() -> None:
            run.clean_up()
            release()
            if owned:
                session.stop()

        restarts = restarts_for(RestartStrategies.from_configuration(self._configuration))
        job = RunningJob(launch.job_id, program.name, run.attempt, restarts, cleanup)
        run.note_epoch = job.note_epoch
        return job.start()


class _SparkJob:
    """The attempts of one job on Spark."""

    def __init__(
        self,
        session: SparkSession,
        launch: Launch,
        storage: Storage,
        directory: Path,
        parallelism: int,
        slots: int,
        configuration: Configuration,
    ) -> None:
        self._session = session
        self._launch = launch
        self._storage = storage
        self._directory = directory
        self._parallelism = parallelism
        self._slots = slots
        self._configuration = configuration
        self._finished = False
        self.note_epoch: Any = None

    def attempt(self, stop: StopSignal) -> None:
        """Run the job from its last committed epoch until it ends."""
        context = self._session.sparkContext
        context.setJobGroup(f"tidemill-{self._launch.job_id}", self._launch.plan.name, interruptOnCancel=False)
        stop.on_set(lambda: context.cancelJobGroup(f"tidemill-{self._launch.job_id}"))
        streaming = self._streaming_sources()
        launch = self._with_parquet(streaming)
        inputs = StreamingInput(self._session, launch, streaming) if streaming else None
        bundle = launch.bundle(self._storage, inputs.schemas() if inputs else {})
        engine = SparkEngine(context, bundle, self._slots, inputs.combined_schema() if inputs else None)
        coordinator = Coordinator(
            bundle,
            engine,
            self._parallelism,
            launch.committers(),
            snapshots=Snapshots(
                self._storage,
                engine.merge,
                fan_in=self._get(ExecutionOptions.EPOCH_SNAPSHOT_INTERVAL),
                inline_limit=self._get(StateOptions.INLINE_DELTA_SIZE),
            ),
            allow_non_restored_state=self._get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
            on_epoch=self._note,
        )
        try:
            if inputs is None:
                run_split_job(launch, coordinator, self._parallelism, stop)
            else:
                run_streaming_job(inputs, coordinator, self._directory, stop)
            self._finished = True
        finally:
            coordinator.close()

    def clean_up(self) -> None:
        """Remove the materialised input of a job that has read all of it."""
        if self._finished:
            self._storage.delete(self._storage.list("input/"))

    def _note(self, stats: EpochStats) -> None:
        if self.note_epoch is not None:
            self.note_epoch(stats)

    def _get(self, option: Any) -> Any:
        return self._configuration.get(option)

    def _streaming_sources(self) -> dict[int, Source]:
        return {
            chain: source
            for chain, source in self._launch.sources().items()
            if isinstance(source, (DataFrameSource, FormatSource)) and not source.bounded
        }

    def _with_parquet(self, streaming: dict[int, Source]) -> Launch:
        """The launch with each bounded Spark source replaced by its materialised rows."""
        launch = self._launch
        chains = list(launch.plan.chains)
        operators = dict(launch.operators)
        for chain, source in launch.sources().items():
            if chain in streaming or not isinstance(source, (DataFrameSource, FormatSource)):
                continue
            head = chains[chain].head
            directory = self._directory / input_prefix(head.uid)
            materialise(frame_of(self._session, source, 0), directory)
            spec = SourceSpec(ParquetSource(str(directory), source.type_info), operators[head.uid].spec.watermarks)
            replaced = replace(head, spec=cloudpickle.dumps(spec))
            chains[chain] = replace(
                chains[chain], operators=(replaced, *chains[chain].operators[1:]), parallelism=self._parallelism
            )
            operators[head.uid] = replace(operators[head.uid], spec=spec)
        plan: JobPlan = replace(launch.plan, chains=tuple(chains))
        return replace(launch, plan=plan, operators=operators)
