"""The steps of every executor to start a program: compile it, find its driver-side parts, open its storage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from tidemill.checkpoint.cleanup import discard_job
from tidemill.checkpoint.log import ManifestLog, has_committed
from tidemill.checkpoint.lost_manifests import evidence
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.portable import is_input
from tidemill.checkpoint.storage.storages import LocalStorage, Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.common.job_id import JobID
from tidemill.config import CheckpointingOptions, ExecutionOptions, MetricOptions, PipelineOptions, StateOptions
from tidemill.connectors.collect import CollectSink
from tidemill.connectors.sinks import Committer
from tidemill.connectors.sources import Source, SplitSource
from tidemill.datastream.program.execution import JobProgram
from tidemill.datastream.program.specs import SinkSpec, SourceSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import TidemillError
from tidemill.graph.compiler import compile_job
from tidemill.graph.guarantees import warning
from tidemill.graph.plan import JobPlan
from tidemill.graph.uids import operators_by_uid
from tidemill.runtime.driver.checkpointing import Checkpointing
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.owner_watch import OwnerWatch
from tidemill.runtime.driver.rescaling import JobParallelism, with_stored_max_parallelism
from tidemill.runtime.driver.savepoints import Savepoints
from tidemill.runtime.observe.logs import LogSettings
from tidemill.runtime.start.before_engine import Checked
from tidemill.runtime.start.starting_point import StartingPoint, check_own_end, check_start_over, starting_point
from tidemill.runtime.start.trust import check_trusted
from tidemill.runtime.start.upgrade import warn_of_derived_uids
from tidemill.runtime.task.chain import ChainSettings
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.main_classes import main_script_classes
from tidemill.runtime.task.pieces import PieceForm
from tidemill.runtime.task.scratch import scratch_directory
from tidemill.runtime.time.processing_clock import ProcessingClock
from tidemill.state.backends import BackendChoice, choose_backend

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launch:
    """A compiled program with everything that only the driver needs."""

    job_id: str
    plan: JobPlan
    configuration: Configuration
    operators: Mapping[str, Transformation]
    start_from: StartingPoint | None = None
    checked: Checked | None = None
    #: From which epoch the job goes on; empty if it starts without state.
    resumes: str = ""

    def sources(self) -> dict[int, Source]:
        """The program's own source objects, by chain."""
        found = {}
        for chain in self.plan.chains:
            spec = self.operators[chain.head.uid].taken.on_driver
            if isinstance(spec, SourceSpec):
                found[chain.id] = spec.source
        return found

    def split_sources(self) -> dict[int, SplitSource]:
        """The sources that are read in plain Python, by chain."""
        return {chain: source for chain, source in self.sources().items() if isinstance(source, SplitSource)}

    def restoring(self, storage: Storage) -> Launch:
        """The launch with the state the job starts from: its own, or that of a savepoint that its configuration names.

        Keyed operators get the max parallelism that they have in that state. A max parallelism that is set explicitly
        is kept, and refused later if it differs: see ``Coordinator.open``. Raises
        :class:`~tidemill.errors.GraphError` for an operator whose parallelism exceeds what its state allows, and
        :class:`~tidemill.errors.UntrustedStateError` for a savepoint that the job must not unpickle.
        """
        durable = (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY)
        if self.plan.runtime_mode != "BATCH" and any(map(self.configuration.contains, durable)):
            warn_of_derived_uids(self.plan)
        if (weakness := warning(self.plan)) is not None:
            log.warning("%s", weakness)
        manifests = ManifestLog(storage, self.job_id)
        start_from = starting_point(self.configuration, manifests, self.job_id, batch=self.plan.runtime_mode == "BATCH")
        head = manifests.read_head()
        if start_from is not None:
            start_from = start_from.without_results_of(self.collecting_sinks())
            check_trusted(start_from.path, start_from.state, self.configuration, self.unpickling_sinks())
        elif head is not None and head.finished:
            check_own_end(self.plan, head, manifests.operators_of(head), self.collecting_sinks())
        restored = head if start_from is None else start_from.state.manifest
        resumes = _resumes(restored, None if start_from is None else start_from.path)
        if resumes:
            log.info("job %s %s", self.job_id, resumes)
        operators = [operator for chain in self.plan.chains for operator in chain.operators if operator.keyed]
        if restored is None or all(operator.explicit_max_parallelism for operator in operators):
            return replace(self, start_from=start_from, resumes=resumes)
        asked_for = self.configuration.contains(PipelineOptions.PARALLELISM)
        plan = with_stored_max_parallelism(self.plan, restored.max_parallelism, lower=not asked_for)
        return replace(self, plan=plan, start_from=start_from, resumes=resumes)

    def parallelism(self, default: int) -> JobParallelism:
        """The parallelism of the job's chains, shared by all its executions."""
        unchangeable = [chain for chain, source in self.split_sources().items() if source.parallelism is not None]
        return JobParallelism(self.plan, default, unchangeable)

    def bring_input(self, storage: Storage) -> None:
        """Copy the materialised input of a savepoint, unless the job has already started from it."""
        start_from = self.starting_from(ManifestLog(storage, self.job_id).read_head())
        if start_from is not None:
            start_from.state.copy_into(storage, wanted=is_input)

    def starting_from(self, head: Manifest | None) -> StartingPoint | None:
        """The starting point of a job with this head; None if it has already started from it."""
        return None if self.start_from is None or self.start_from.is_behind(head) else self.start_from

    def savepoints(self, storage: Storage, history: Checkpointing | None = None) -> Savepoints:
        """The savepoints of the job, shared by all its executions; ``history`` records them."""
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
            if isinstance(spec := operator.taken.on_driver, SinkSpec):
                committer = spec.sink.create_committer()
                if committer is not None:
                    committers[uid] = committer
        return committers

    def commit_timeout(self) -> float:
        """The maximum number of seconds that a sink may take to commit an epoch."""
        return self.configuration.get(ExecutionOptions.SINK_COMMITTER_TIMEOUT).total_seconds()

    def clock(self) -> ProcessingClock:
        """The processing time of the job, shared by all its executions."""
        return ProcessingClock(self.configuration.get(ExecutionOptions.CLOCK_JUMP_DELAY).total_seconds())

    def epoch_limit(self) -> EpochLimit:
        """The limit on the records of epochs, shared by all executions, so that the cost of records stays known."""
        return EpochLimit.of(self.configuration, batch=self.plan.runtime_mode == "BATCH")

    def owner_watch(self) -> OwnerWatch:
        """The watch that detects a takeover by another driver, shared by all executions."""
        return OwnerWatch(self.configuration.get(ExecutionOptions.OWNER_CHECK_INTERVAL).total_seconds())

    def unpickling_sinks(self) -> set[str]:
        """The uids of the sinks whose committers unpickle their committables."""
        specs = ((uid, operator.taken.on_driver) for uid, operator in self.operators.items())
        return {uid for uid, spec in specs if isinstance(spec, SinkSpec) and spec.sink.pickled_committables}

    def collecting_sinks(self) -> set[str]:
        """The uids of the sinks whose results go only to the program that runs the job."""
        specs = ((uid, operator.taken.on_driver) for uid, operator in self.operators.items())
        return {uid for uid, spec in specs if isinstance(spec, SinkSpec) and isinstance(spec.sink, CollectSink)}

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
                object_reuse=get(PipelineOptions.OBJECT_REUSE),
                strict_types=get(PipelineOptions.STRICT_TYPES),
                job_id=self.job_id,
                # In BATCH mode the state of a key is discarded when the key is done: it fits in memory.
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


def _resumes(restored: Manifest | None, path: str | None) -> str:
    """Say from which epoch a job goes on, and when it was: ``goes on from epoch 190 of 2026-11-16 03:12:05Z``."""
    if restored is None or not has_committed(restored):
        return ""
    if restored.finished:
        return f"has finished with epoch {restored.epoch}"
    when = datetime.fromtimestamp(restored.clock / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    epoch = f"epoch {restored.epoch} of {when}"
    return f"goes on from {epoch}" if path is None else f"starts from {path}, {epoch}"


def prepare(program: JobProgram, parallelism: int, checked: Checked | None = None) -> Launch:
    """Compile a program; ``parallelism`` is the default if neither the program nor its configuration sets it.

    ``checked`` is the result of :func:`~tidemill.runtime.start.before_engine.check_before_engine`.
    """
    configuration = program.configuration
    LogSettings.of(configuration).set_up_driver()
    if (note := program.dependencies().interpreter_note()) is not None:
        log.warning("%s", note)
    known = configuration.get(ExecutionOptions.JOB_ID) if checked is None else checked.job_id
    job_id = known or str(JobID.generate())
    plan = compile_job(program.transformations, configuration, program.name, default_parallelism=parallelism)
    return Launch(job_id, plan, configuration, operators_by_uid(program.transformations), checked=checked)


def open_storage(configuration: Configuration, job_id: str) -> tuple[Storage, Path | None, Callable[[], None]]:
    """Open the durable storage of a job: (storage, its directory if it is local, a function that closes it).

    Without a configured directory it is a temporary one, which is removed when the job ends.
    """
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    if directory is None:
        root, remove = scratch_directory()
        # No later driver can resume from a temporary directory: there is no need to sync it to disk.
        return storage_for(str(root), durable=False), root, remove
    storage = storage_for(f"{directory.rstrip('/')}/{job_id}", options=store_options(configuration))
    return storage, storage.root if isinstance(storage, LocalStorage) else None, storage.close


def start_over(configuration: Configuration, storage: Storage, job_id: str) -> None:
    """With ``execution.resume-mode: none``, delete what earlier drivers of the job committed, or its leftovers."""
    if configuration.get(ExecutionOptions.RESUME_MODE) != "none":
        return
    if evidence(storage) or ManifestLog(storage, job_id).last_slot() is not None:
        check_start_over(configuration, job_id)
        discard_job(storage, job_id)


def let_go(configuration: Configuration, storage: Storage, job_id: str, lineage: str | None) -> None:
    """Delete the checkpoints of a cancelled job, if its configuration requests it. Failures are logged.

    ``lineage`` is this driver's lineage: checkpoints of a job that another driver has taken over are not deleted.
    """
    if not lineage or configuration.get(CheckpointingOptions.EXTERNALIZED_RETENTION) != "DELETE_ON_CANCELLATION":
        return
    try:
        discard_job(storage, job_id, after=lineage)
    except TidemillError as error:
        log.warning("the checkpoints of cancelled job %s were not deleted: %s", job_id, error)
