"""A dry run of an upgrade: checks a program against the state it would start from. Nothing is started or written.

Only the functions of a program know its states. The dry run therefore opens those that can have state, in this process,
with empty state, and closes them again. A real start does not do this; it compares the types on the workers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.portable import PortableFile, PortableState
from tidemill.checkpoint.restore import committed_pieces
from tidemill.checkpoint.savepoint import open_state
from tidemill.checkpoint.storage.api import Names, NotFoundError
from tidemill.checkpoint.storage.storages import MemoryStorage, Storage, storage_for, store_options
from tidemill.checkpoint.stored_states import sections_of, stored_states
from tidemill.common.job_client import JobClient
from tidemill.common.reports.upgrade_report import Change, Outcome, UpgradeReport
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.config import CheckpointingOptions, PipelineOptions, StateRecoveryOptions
from tidemill.datastream.program.execution import JobProgram
from tidemill.errors import CheckpointError, ConfigurationError, JobFinishedError, UntrustedStateError
from tidemill.runtime.driver.job import RunningJob, StopSignal
from tidemill.runtime.driver.launch import Launch, prepare
from tidemill.runtime.driver.rescaling import with_stored_max_parallelism
from tidemill.runtime.driver.restarts import restarts_for
from tidemill.runtime.start.declared_states import declared_states
from tidemill.runtime.start.starting_point import check_own_end, finished_refusal, starting_point
from tidemill.runtime.start.trust import is_trusted, pickle_refusal, pickled_parts
from tidemill.runtime.start.upgrade import compare_operators
from tidemill.runtime.start.upgrade_states import compare_states

__all__ = ["check_upgrade", "report_upgrade", "run_dry"]


def check_upgrade(program: JobProgram, path: str | None = None) -> UpgradeReport:
    """Report the outcome of an upgrade: see :meth:`StreamExecutionEnvironment.check_upgrade`."""
    launch = prepare(program, 1)
    if path is None:
        path, state = _what_a_start_takes(launch)
    else:
        state = open_state(path, store_options(launch.configuration))
    untrusted = _untrusted(path, state, launch)
    report = report_upgrade(launch, _Files(state), state.manifest, trusted=not untrusted)
    return replace(report, changes=(*report.changes, *untrusted, *_finished(path, state, launch)))


def report_upgrade(launch: Launch, storage: Storage, manifest: Manifest, *, trusted: bool = True) -> UpgradeReport:
    """Report the outcome of starting from a manifest and the state files in a storage.

    Without ``trusted``, the values of states are not read.
    """
    log = ManifestLog(storage, manifest.job_id)
    asked_for = launch.configuration.contains(PipelineOptions.PARALLELISM)
    plan = with_stored_max_parallelism(launch.plan, manifest.max_parallelism, lower=not asked_for)
    operators = compare_operators(
        plan,
        manifest,
        log.operators_of(manifest),
        allow_non_restored=launch.configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
    )
    runs = committed_pieces(storage, log, manifest)
    groups = {operator.uid: operator.max_parallelism for chain in plan.chains for operator in chain.operators}
    states = compare_states(
        plan,
        stored_states(storage, runs),
        declared_states(plan, launch.bundle(storage).settings),
        manifest,
        (lambda uid, state: sections_of(storage, runs, uid, state, groups[uid])) if trusted else None,
    )
    return UpgradeReport(manifest.job_id, manifest.epoch, (*operators, *states))


def run_dry(program: JobProgram) -> JobClient:
    """Run ``execution.state-recovery.dry-run``: print the report, then end the job, or fail it if it is refused."""
    report = check_upgrade(program)
    sys.stdout.write(f"{report}\n")
    launch = prepare(program, 1)

    def execution(stop: StopSignal) -> None:
        report.check()

    never = restarts_for(RestartStrategies.no_restart())
    return RunningJob(launch.job_id, program.name, execution, never, lambda: None, launch.parallelism(1)).start()


def _what_a_start_takes(launch: Launch) -> tuple[str, PortableState]:
    """The path and the state that the job would start from: the configured one, or its own directory."""
    own = _own_directory(launch)
    options = store_options(launch.configuration)
    storage = MemoryStorage() if own is None else storage_for(own, options=options)
    start = starting_point(
        launch.configuration,
        ManifestLog(storage, launch.job_id),
        launch.job_id,
        batch=launch.plan.runtime_mode == "BATCH",
    )
    if start is not None:
        return start.path, start.state
    if own is None:
        raise ConfigurationError(
            "the program has no state to start from. Name a savepoint or checkpoint, or set "
            "execution.state-recovery.path, or execution.checkpointing.dir and execution.job-id"
        )
    return own, open_state(own, options)


def _finished(path: str, state: PortableState, launch: Launch) -> list[Change]:
    """The refusal if the state is the end of another job, or of this job with a different program."""
    manifest = state.manifest
    detail = None
    if manifest.job_id != launch.job_id or path != _own_directory(launch):
        detail = finished_refusal(path, manifest)
    elif manifest.finished:
        try:
            check_own_end(launch.plan, manifest, manifest.operators, launch.collecting_sinks())
        except JobFinishedError as error:
            detail = str(error)
    if detail is None:
        return []
    return [Change("", manifest.job_id, "", Outcome.REFUSED, "finished", detail=detail, error=JobFinishedError)]


def _untrusted(path: str, state: PortableState, launch: Launch) -> list[Change]:
    """The refusals for pickled parts that the job must not unpickle."""
    if is_trusted(path, launch.configuration):
        return []
    described = state.manifest.operators
    return [
        Change(
            part.uid,
            str(described.get(part.uid, {}).get("name", part.uid)),
            part.what,
            Outcome.REFUSED,
            "pickled",
            detail=pickle_refusal(path, state.manifest, [part]),
            error=UntrustedStateError,
        )
        for part in pickled_parts(state, launch.unpickling_sinks())
    ]


def _own_directory(launch: Launch) -> str | None:
    directory = launch.configuration.get(CheckpointingOptions.DIRECTORY)
    return None if directory is None else f"{directory.rstrip('/')}/{launch.job_id}"


class _Files(Storage):
    """A read-only storage with the files of a portable state under the names that they would have in the job."""

    def __init__(self, state: PortableState) -> None:
        self._storage = state.storage
        self._files = {file.name: file for file in state.files}

    def read(self, name: str) -> bytes:
        file = self._file(name)
        return self._storage.read(file.source) if file.data is None else file.data

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        file = self._file(name)
        if file.data is not None:
            return file.data[offset : offset + length]
        return self._storage.read_range(file.source, offset, length)

    def size(self, name: str) -> int:
        file = self._file(name)
        return self._storage.size(file.source) if file.data is None else len(file.data)

    def exists(self, name: str) -> bool:
        return name in self._files

    def list(self, prefix: str = "") -> Names:
        return sorted(name for name in self._files if name.startswith(prefix))

    def create(self, name: str, data: bytes) -> NoReturn:
        self._refuse()

    def write(self, name: str, data: bytes) -> NoReturn:
        self._refuse()

    def delete(self, names: Iterable[str]) -> NoReturn:
        self._refuse()

    def _file(self, name: str) -> PortableFile:
        if name not in self._files:
            raise NotFoundError(f"{name} is not part of the state that the job would start from")
        return self._files[name]

    def _refuse(self) -> NoReturn:
        raise CheckpointError("a dry run writes nothing")
