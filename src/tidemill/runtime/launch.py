"""What every executor does to start a program: compile it, find its driver-side parts, choose its storage."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tidemill.checkpoint.cleanup import discard_job
from tidemill.checkpoint.log import ManifestLog, has_committed
from tidemill.checkpoint.portable import is_input
from tidemill.checkpoint.storage import LocalStorage, Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.common.job_id import JobID
from tidemill.config import CheckpointingOptions, ExecutionOptions, MetricOptions, PipelineOptions, StateOptions
from tidemill.datastream.execution import JobProgram
from tidemill.datastream.sinks import Committer
from tidemill.datastream.sources import Source, SplitSource
from tidemill.datastream.specs import SinkSpec, SourceSpec
from tidemill.datastream.transformations import Transformation
from tidemill.errors import TidemillError
from tidemill.graph.compiler import compile_job
from tidemill.graph.guarantees import warning
from tidemill.graph.plan import JobPlan
from tidemill.graph.uids import operators_by_uid
from tidemill.runtime.chain import ChainSettings
from tidemill.runtime.checkpointing import Checkpointing
from tidemill.runtime.coordinator import Coordinator
from tidemill.runtime.job import StopSignal
from tidemill.runtime.job_bundle import JobBundle
from tidemill.runtime.logs import LogSettings
from tidemill.runtime.main_classes import main_script_classes
from tidemill.runtime.pieces import PieceForm
from tidemill.runtime.rescaling import JobParallelism, with_stored_max_parallelism
from tidemill.runtime.savepoints import Savepoints, StartingPoint, starting_point
from tidemill.runtime.scratch import scratch_directory
from tidemill.runtime.split_input import SplitInput
from tidemill.runtime.trust import check_trusted
from tidemill.runtime.upgrade import warn_of_derived_uids
from tidemill.state.backends import BackendChoice, choose_backend

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launch:
    """A compiled program with everything only the driver has."""

    job_id: str
    plan: JobPlan
    configuration: Configuration
    operators: Mapping[str, Transformation]
    start_from: StartingPoint | None = None

    def sources(self) -> dict[int, Source]:
        """The program's own source objects, by chain."""
        found = {}
        for chain in self.plan.chains:
            spec = self.operators[chain.head.uid].spec
            if isinstance(spec, SourceSpec):
                found[chain.id] = spec.source
        return found

    def split_sources(self) -> dict[int, SplitSource]:
        """Those of them that are read in plain Python."""
        return {chain: source for chain, source in self.sources().items() if isinstance(source, SplitSource)}

    def restoring(self, storage: Storage) -> Launch:
        """The launch with the state the job begins with: its own, or else a savepoint's that its configuration names.

        It has the max parallelism that keyed operators have in that state.
        One that the program or its configuration sets stays, and is refused if it is another: see ``Coordinator.open``.
        Raises :class:`~tidemill.errors.GraphError` for an operator that is to be wider than its state allows, and
        :class:`~tidemill.errors.UntrustedStateError` for a savepoint that the job must not unpickle.
        """
        durable = (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY)
        if self.plan.runtime_mode != "BATCH" and any(map(self.configuration.contains, durable)):
            warn_of_derived_uids(self.plan)
        if (weakness := warning(self.plan)) is not None:
            log.warning("%s", weakness)
        head = ManifestLog(storage, self.job_id).read_head()
        start_from = starting_point(self.configuration, head, batch=self.plan.runtime_mode == "BATCH")
        if start_from is not None:
            check_trusted(start_from.path, start_from.state, self.configuration, self.unpickling_sinks())
        restored = head if start_from is None else start_from.state.manifest
        operators = [operator for chain in self.plan.chains for operator in chain.operators if operator.keyed]
        if restored is None or all(operator.explicit_max_parallelism for operator in operators):
            return replace(self, start_from=start_from)
        asked_for = self.configuration.contains(PipelineOptions.PARALLELISM)
        plan = with_stored_max_parallelism(self.plan, restored.max_parallelism, lower=not asked_for)
        return replace(self, plan=plan, start_from=start_from)

    def parallelism(self, default: int) -> JobParallelism:
        """The parallelism of the job's chains, to be shared by all its attempts."""
        unchangeable = [chain for chain, source in self.split_sources().items() if source.parallelism is not None]
        return JobParallelism(self.plan, default, unchangeable)

    def bring_input(self, storage: Storage) -> None:
        """Copy the materialised input that a savepoint holds; a job that has committed something has its own."""
        if self.start_from is not None and not has_committed(ManifestLog(storage, self.job_id).read_head()):
            self.start_from.state.copy_into(storage, wanted=is_input)

    def savepoints(self, storage: Storage, history: Checkpointing | None = None) -> Savepoints:
        """The savepoints of the job, to be shared by all its attempts; ``history`` remembers them."""
        return Savepoints(
            self.job_id,
            storage,
            self.configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY),
            options=store_options(self.configuration),
            batch=self.plan.runtime_mode == "BATCH",
            history=history,
        )

    def committers(self) -> dict[str, Committer]:
        """A committer for each sink that has one, by operator uid; none is open yet."""
        committers = {}
        for uid, operator in self.operators.items():
            if isinstance(operator.spec, SinkSpec):
                committer = operator.spec.sink.create_committer()
                if committer is not None:
                    committers[uid] = committer
        return committers

    def commit_timeout(self) -> float:
        """How many seconds a sink may take to commit an epoch."""
        return self.configuration.get(ExecutionOptions.SINK_COMMITTER_TIMEOUT).total_seconds()

    def unpickling_sinks(self) -> set[str]:
        """The uids of the sinks whose committers unpickle what they commit."""
        specs = ((uid, operator.spec) for uid, operator in self.operators.items())
        return {uid for uid, spec in specs if isinstance(spec, SinkSpec) and spec.sink.pickled_committables}

    def bundle(self, storage: Storage, schemas: dict[int, bytes] | None = None) -> JobBundle:
        """The part of the job that workers need."""
        get = self.configuration.get
        parameters = get(PipelineOptions.GLOBAL_JOB_PARAMETERS)
        return JobBundle(
            job_id=self.job_id,
            plan=self.plan,
            storage=storage,
            settings=ChainSettings(
                job_parameters=parameters or {},
                runtime_mode=self.plan.runtime_mode,
                periodic_watermarks=bool(get(PipelineOptions.AUTO_WATERMARK_INTERVAL)),
                hot_keys=get(MetricOptions.HOT_KEYS),
                job_id=self.job_id,
                # In BATCH mode a key's state is gone when the key is done: it fits in memory.
                backend=BackendChoice() if self.plan.runtime_mode == "BATCH" else choose_backend(self.configuration),
            ),
            schemas=schemas or {},
            parcel_size=get(ExecutionOptions.EXCHANGE_PARCEL_SIZE),
            form=PieceForm.of(self.configuration),
            sort_memory=get(ExecutionOptions.SORTED_INPUTS_MEMORY),
            cache_size=get(StateOptions.WORKER_CACHE_SIZE),
            main_classes=main_script_classes(),
            logs=LogSettings.of(self.configuration),
        )


def prepare(program: JobProgram, parallelism: int) -> Launch:
    """Compile a program; ``parallelism`` is used where neither the program nor its configuration says."""
    configuration = program.configuration
    LogSettings.of(configuration).set_up_driver()
    job_id = configuration.get(ExecutionOptions.JOB_ID) or str(JobID.generate())
    plan = compile_job(program.transformations, configuration, program.name, default_parallelism=parallelism)
    return Launch(job_id, plan, configuration, operators_by_uid(program.transformations))


def open_storage(configuration: Configuration, job_id: str) -> tuple[Storage, Path | None, Callable[[], None]]:
    """Where the job keeps what is durable: (storage, its directory if it is local, a function that ends its use).

    Without a configured directory that is a temporary one, which is gone when the job is.
    """
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    if directory is None:
        root, remove = scratch_directory()
        # Nobody can come back to a temporary directory: there is no point in waiting for the disk.
        return storage_for(str(root), durable=False), root, remove
    storage = storage_for(f"{directory.rstrip('/')}/{job_id}", options=store_options(configuration))
    return storage, storage.root if isinstance(storage, LocalStorage) else None, storage.close


def start_over(configuration: Configuration, storage: Storage, job_id: str) -> None:
    """With ``execution.resume-mode: none``: let go of what an earlier driver of the job committed."""
    anew = configuration.get(ExecutionOptions.RESUME_MODE) == "none"
    if anew and ManifestLog(storage, job_id).last_slot() is not None:
        discard_job(storage, job_id)


def let_go(configuration: Configuration, storage: Storage, job_id: str, lineage: str | None) -> None:
    """The job was cancelled: delete its checkpoints if it was asked for. What cannot be deleted is told, and stays.

    ``lineage`` is this driver's: what is not its own, or not any more, it does not touch.
    """
    if not lineage or configuration.get(CheckpointingOptions.EXTERNALIZED_RETENTION) != "DELETE_ON_CANCELLATION":
        return
    try:
        discard_job(storage, job_id, after=lineage)
    except TidemillError as error:
        log.warning("the checkpoints of cancelled job %s were not deleted: %s", job_id, error)


def run_split_job(
    launch: Launch,
    coordinator: Coordinator,
    parallelism: JobParallelism,
    savepoints: Savepoints,
    stop: StopSignal,
    poll_seconds: float = 0.02,
) -> None:
    """Run a job without Spark sources from its last committed epoch until its sources end or it is stopped."""
    restored = coordinator.open()
    if restored is not None and restored.finished:
        return
    get = launch.configuration.get
    sources = SplitInput(
        launch.plan,
        launch.split_sources(),
        coordinator.head.sources,
        parallelism,
        get(ExecutionOptions.EPOCH_MAX_RECORDS),
        whole=launch.plan.runtime_mode == "BATCH",
    )
    pause = get(ExecutionOptions.EPOCH_MIN_INTERVAL).total_seconds()
    rested = 0.0
    try:
        while True:
            stop.check()
            if savepoints.pending and savepoints.take(
                coordinator.manifests, lambda: coordinator.run_epoch(sources.end_of_input()), stop.set
            ):
                return
            left = rested - time.monotonic()
            if left > 0:
                stop.wait(min(left, poll_seconds))
                continue
            wanted = sources.finished or sources.available() or coordinator.timer_due() or parallelism.pending
            if not wanted:
                stop.wait(poll_seconds)
                continue
            inputs = sources.next_input()
            if sources.whole and not inputs.last:
                continue
            coordinator.run_epoch(inputs)
            if inputs.last:
                return
            rested = time.monotonic() + pause
    finally:
        sources.close()
