"""``execution.target: spark``: runs a program on Spark, in the active session if there is one, else in a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

from tidemill.checkpoint.log import ManifestLog
from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.config import CheckpointingOptions, PipelineOptions
from tidemill.connectors.sources import ClockOf
from tidemill.datastream.program.execution import JobProgram
from tidemill.datastream.program.specs import SourceSpec
from tidemill.datastream.program.taken import Taken
from tidemill.errors import ConfigurationError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.driver.assembly import JobAssembly, open_job
from tidemill.runtime.driver.job import StopSignal
from tidemill.runtime.driver.launch import Launch, prepare
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.start.before_engine import Checked, check_before_engine
from tidemill.runtime.task.delivery import Packed, pack
from tidemill.spark.bounded.object_input import settings_at_tasks
from tidemill.spark.bounded.parquet_input import ParquetSource, materialise, remove_input
from tidemill.spark.files.staging import Staging
from tidemill.spark.files.strict_files import misfit_error
from tidemill.spark.files.watched_files import JobInput, WatchedFiles
from tidemill.spark.frames.event_time import has_event_time
from tidemill.spark.jobs.engine import SparkEngine
from tidemill.spark.locations.job_locations import SparkLocations, open_locations
from tidemill.spark.locations.locations import positioned
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
            misfit = misfit_error(self._session, files, error, self._staging.original, names)
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
        watched = WatchedFiles(self._session, launch, self._readers.watched, self._staging, job.metrics, self._skipped)
        bundle = replace(
            launch.bundle(self._storage, {**watched.schemas(), **(inputs.schemas() if inputs else {})}),
            dependencies=self._packed.delivery,
        )
        engine = SparkEngine(self._session.sparkContext, bundle, self._cores)
        with job.execution(stop, bundle, engine, merge=engine.merge, background=True) as coordinator:

            def with_files(*arguments: Any, **options: Any) -> SplitInput:
                watched.open(coordinator, self._open_locations, alone=inputs is None)
                return JobInput(watched, *arguments, **options)

            open_input = with_files if watched else SplitInput

            with settings_at_tasks(self._session) if watched else nullcontext():
                if inputs is None:
                    job.run(coordinator, stop, launch, open_input)
                else:
                    locations = self._open_locations()
                    run_streaming_job(inputs, job, coordinator, locations, stop, open_input, watched.uids)

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
        launch = self._launch
        chains = list(launch.plan.chains)
        operators = dict(launch.operators)
        for chain, reader in self._readers.bounded.items():
            source, head = reader.source, chains[chain].head
            folder = materialise(partial(reader.frame, self._session), self._storage, head.uid, head.named)
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
            taken = Taken(SourceSpec, cloudpickle.dumps(spec), spec)
            replaced = replace(head, spec=taken.data)
            chains[chain] = replace(
                chains[chain],
                operators=(replaced, *chains[chain].operators[1:]),
                parallelism=self._default,
                clock_of=ClockOf.PARTITION if has_time else chains[chain].clock_of,
            )
            operators[head.uid] = replace(operators[head.uid], taken=taken)
        plan: JobPlan = replace(launch.plan, chains=tuple(chains))
        return replace(launch, plan=plan, operators=operators)
