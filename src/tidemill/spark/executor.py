"""``execution.target: spark``: runs a program on Spark, in the active session if there is one, else in a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemill.checkpoint.log import ManifestLog
from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.config import CheckpointingOptions, PipelineOptions
from tidemill.connectors.sources import SparkSource
from tidemill.datastream.program.execution import JobProgram
from tidemill.errors import ConfigurationError
from tidemill.runtime.driver.assembly import JobAssembly, open_job
from tidemill.runtime.driver.job import StopSignal
from tidemill.runtime.driver.launch import Launch, prepare
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.operators.source import has_event_time
from tidemill.runtime.start.before_engine import Checked, check_before_engine
from tidemill.runtime.start.spark_positions import positioned
from tidemill.runtime.stored_input.parquet_source import reading_stored, remove_input
from tidemill.runtime.task.delivery import Packed, pack
from tidemill.runtime.watched.watched_files import WatchedFiles, WatchingInput
from tidemill.runtime.watched.watched_source import WatchedSource
from tidemill.spark.bounded.object_input import settings_at_tasks
from tidemill.spark.bounded.parquet_input import materialise_frame
from tidemill.spark.files.staging import Staging
from tidemill.spark.files.strict_files import misfit_in
from tidemill.spark.files.watch_options import watched_source
from tidemill.spark.files.watched_rows import frame_of
from tidemill.spark.jobs.engine import SparkEngine
from tidemill.spark.locations.file_source_log import former_files
from tidemill.spark.locations.job_locations import SparkLocations, open_locations
from tidemill.spark.readers import SparkReaders
from tidemill.spark.session.cluster import check_workers, cores_of
from tidemill.spark.session.dependencies import bring, folder_of_files, install_everywhere
from tidemill.spark.session.session import check_startable, is_lost
from tidemill.spark.session.session_lease import SessionLease
from tidemill.spark.streams.streaming import StreamingInput, run_streaming_job


class SparkExecutor:
    """Runs programs on Spark."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program; epochs run in a thread of this process, tasks on Spark."""
        with ExitStack() as held:
            check_startable()
            checked = check_before_engine(program.configuration, held)
            lease = SessionLease(self._configuration)
            held.callback(lease.release)
            try:
                run = self._prepare(program, checked, lease, held)
            except Exception as error:
                if is_lost(lease.session.sparkContext):
                    raise lease.loss() from error
                raise
            held.callback(run.clean_up)
            return run.job.start(program.name, run.execution, held)

    def _prepare(self, program: JobProgram, checked: Checked, lease: SessionLease, held: ExitStack) -> _SparkJob:
        session, context = lease.session, lease.session.sparkContext
        if self._configuration.get(CheckpointingOptions.DIRECTORY) is None and not str(context.master).startswith(
            "local"
        ):
            raise ConfigurationError(
                f"a job on {context.master} needs execution.checkpointing.dir: a directory that the driver and all "
                "executors share, or a URI of an object store"
            )
        dependencies = program.dependencies()
        packed = pack(dependencies, folder_of_files)
        bring(context, dependencies.files, packed)
        cores = cores_of(context)
        configured = self._configuration.contains(PipelineOptions.PARALLELISM)
        parallelism = self._configuration.get(PipelineOptions.PARALLELISM) if configured else cores
        launch = prepare(program, parallelism, checked)

        def check(directory: Path | None) -> None:
            check_workers(context, directory)
            install_everywhere(context, packed.delivery)
            SparkReaders.of(launch.sources()).check(session)

        job = open_job(launch, parallelism, held, check)
        return _SparkJob(lease, dependencies.files, packed, job, parallelism, cores)


class _SparkJob:
    """The executions of one job on Spark."""

    def __init__(
        self,
        lease: SessionLease,
        python_files: Sequence[str],
        packed: Packed,
        job: JobAssembly,
        parallelism: int,
        cores: int,
    ) -> None:
        self._lease = lease
        self._python_files = python_files
        self._packed = packed
        self.job = job
        self._launch = job.launch
        self._storage = job.storage
        self._default = parallelism
        self._cores = cores
        self._readers = SparkReaders.of(job.launch.sources())
        self._locations: SparkLocations | None = None
        self._staging = Staging(job.directory, local=str(lease.session.sparkContext.master).startswith("local"))
        self._skipped: Counter[str] = Counter()

    def execution(self, stop: StopSignal) -> None:
        """Run the job from its last committed epoch until it ends."""
        if is_lost(self._session.sparkContext):
            self._begin_anew()
        context, group = self._session.sparkContext, f"tidemill-{self._launch.job_id}"
        try:
            context.setJobGroup(group, self._launch.plan.name, interruptOnCancel=False)
            with stop.interrupting(partial(context.cancelJobGroup, group)):
                self._run(stop)
        except Exception as error:
            if is_lost(context):
                raise self._lease.loss() from error
            chains = self._launch.plan.chains
            files = {chains[chain].head.uid: source for chain, source in self._readers.files.items()}
            names = {chains[chain].head.uid: chains[chain].head.named for chain in self._readers.files}
            misfit = misfit_in(self._session, files, error, self._staging.original, names)
            if misfit is not None:
                raise misfit from error
            raise

    @property
    def _session(self) -> SparkSession:
        return self._lease.session

    def _begin_anew(self) -> None:
        """Start a new Spark session in place of one that has died."""
        context = self._lease.renew().sparkContext
        bring(context, self._python_files, self._packed)
        cores_of(context)  # waits for executors
        check_workers(context, self.job.directory)

    def _run(self, stop: StopSignal) -> None:
        job = self.job
        streams = self._readers.streams
        self._launch.bring_input(self._storage)
        launch = self._with_parquet()
        inputs = StreamingInput(self._session, launch, streams, self._positioned(), job.limit) if streams else None
        watched = WatchedFiles(
            launch, self._watched_sources(launch), job.metrics, self._skipped, frame_of, self._staging.clear
        )
        bundle = replace(
            launch.bundle(self._storage, {**watched.schemas(), **(inputs.schemas() if inputs else {})}),
            dependencies=self._packed.delivery,
        )
        engine = SparkEngine(self._session.sparkContext, bundle, self._cores)
        with job.execution(stop, bundle, engine, merge=engine.merge, background=True) as coordinator:

            def with_files(*arguments: Any, **options: Any) -> SplitInput:
                former = partial(former_files, locations=self._open_locations)
                watched.open(coordinator, former, alone=inputs is None)
                return WatchingInput(watched, *arguments, **options)

            open_input = with_files if watched else SplitInput

            with settings_at_tasks(self._session) if watched else nullcontext():
                if inputs is None:
                    job.run(coordinator, stop, launch, open_input)
                else:
                    locations = self._open_locations()
                    run_streaming_job(inputs, job, coordinator, locations, stop, open_input, watched.uids)

    def _watched_sources(self, launch: Launch) -> dict[int, WatchedSource]:
        chains, session = launch.plan.chains, self._session
        return {
            chain: watched_source(
                session,
                launch.configuration,
                chains[chain].head,
                source,
                self._staging,
                by_file=has_event_time(chains[chain], launch.operators),
            )
            for chain, source in self._readers.watched.items()
        }

    def clean_up(self) -> None:
        """Remove copies of the input and, if the job has read all of its input, the materialized input."""
        self._staging.close()
        if self._locations is not None:
            self._locations.close()
        if self.job.finished:
            remove_input(self._storage)

    def _positioned(self) -> Collection[str]:
        """Return the uids of the streaming sources that Spark has a position for."""
        head = ManifestLog(self._storage, self._launch.job_id).read_head()
        start = self._launch.starting_from(head)
        manifest = head if start is None else start.state.manifest
        return positioned(None if manifest is None else manifest.spark)

    def _open_locations(self) -> SparkLocations:
        """Open the checkpoint locations of Spark's query, which all executions share."""
        if self._locations is None:
            self._locations = open_locations(self._storage, self.job.directory)
        return self._locations

    def _with_parquet(self) -> Launch:
        """Return the launch with each bounded Spark source replaced by its materialized rows."""
        readers = self._readers.bounded
        chains = self._launch.plan.chains
        heads = {chains[chain].head.uid: (chains[chain].head, reader) for chain, reader in readers.items()}

        def folder(source: SparkSource, uid: str) -> str:
            head, reader = heads[uid]
            return materialise_frame(partial(reader.frame, self._session), self._storage, uid, head.named)

        sources = {chain: reader.source for chain, reader in readers.items()}
        return reading_stored(self._launch, sources, folder, self._storage, self._default)
