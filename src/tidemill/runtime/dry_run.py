"""A dry run of an upgrade: what a program would find of the state it would start from. Nothing is started or written.

The states of the program are known only to its functions: the dry run opens those that can have state, in this process,
with empty state, and closes them again. That is why a real start does not do it, but compares the types on the workers.
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
from tidemill.checkpoint.storage import Storage, store_options
from tidemill.checkpoint.storage_api import Names, NotFoundError
from tidemill.checkpoint.stored_states import stored_states
from tidemill.common.job_client import JobClient
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.common.upgrade_report import Change, Outcome, UpgradeReport
from tidemill.config import CheckpointingOptions, PipelineOptions, StateRecoveryOptions
from tidemill.datastream.execution import JobProgram
from tidemill.errors import CheckpointError, ConfigurationError, UntrustedStateError
from tidemill.runtime.declared_states import declared_states
from tidemill.runtime.job import RunningJob, StopSignal
from tidemill.runtime.launch import Launch, prepare
from tidemill.runtime.rescaling import with_stored_max_parallelism
from tidemill.runtime.restarts import restarts_for
from tidemill.runtime.trust import is_trusted, pickled_parts, refusal
from tidemill.runtime.upgrade import compare_operators
from tidemill.runtime.upgrade_states import compare_states

__all__ = ["check_upgrade", "report_upgrade", "run_dry"]


def check_upgrade(program: JobProgram, path: str | None = None) -> UpgradeReport:
    """What a program would find: see :meth:`StreamExecutionEnvironment.check_upgrade`."""
    launch = prepare(program, 1)
    if path is None:
        path = launch.configuration.get(StateRecoveryOptions.SAVEPOINT_PATH) or _own_directory(launch)
    state = open_state(path, store_options(launch.configuration))
    report = report_upgrade(launch, _Files(state), state.manifest)
    return replace(report, changes=(*report.changes, *_untrusted(path, state, launch)))


def report_upgrade(launch: Launch, storage: Storage, manifest: Manifest) -> UpgradeReport:
    """What a launch would find of a manifest and the state files in a storage."""
    log = ManifestLog(storage, manifest.job_id)
    asked_for = launch.configuration.contains(PipelineOptions.PARALLELISM)
    plan = with_stored_max_parallelism(launch.plan, manifest.max_parallelism, lower=not asked_for)
    operators = compare_operators(
        plan,
        manifest,
        log.operators_of(manifest),
        allow_non_restored=launch.configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
    )
    stored = stored_states(storage, committed_pieces(storage, log, manifest))
    states = compare_states(plan, stored, declared_states(plan, launch.bundle(storage).settings), manifest)
    return UpgradeReport(manifest.job_id, manifest.epoch, (*operators, *states))


def run_dry(program: JobProgram) -> JobClient:
    """With ``execution.state-recovery.dry-run``: print the report; the job then ends, or fails if it is refused."""
    report = check_upgrade(program)
    sys.stdout.write(f"{report}\n")
    launch = prepare(program, 1)

    def attempt(stop: StopSignal) -> None:
        report.check()

    never = restarts_for(RestartStrategies.no_restart())
    return RunningJob(launch.job_id, program.name, attempt, never, lambda: None, launch.parallelism(1)).start()


def _untrusted(path: str, state: PortableState, launch: Launch) -> list[Change]:
    """What the job must not unpickle."""
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
            detail=refusal(path, state.manifest, [part]),
            error=UntrustedStateError,
        )
        for part in pickled_parts(state, launch.unpickling_sinks())
    ]


def _own_directory(launch: Launch) -> str:
    directory = launch.configuration.get(CheckpointingOptions.DIRECTORY)
    if directory is None:
        raise ConfigurationError(
            "what would the program start from? Name a savepoint or checkpoint, or set execution.state-recovery.path, "
            "or execution.checkpointing.dir and execution.job-id"
        )
    return f"{directory.rstrip('/')}/{launch.job_id}"


class _Files(Storage):
    """The files of a portable state under the names they will have, to be read only."""

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
            raise NotFoundError(f"{name} is not part of what the job would start from")
        return self._files[name]

    def _refuse(self) -> NoReturn:
        raise CheckpointError("a dry run writes nothing")
