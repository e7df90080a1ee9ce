"""Runs uploaded programs like ``tidemill run -d``: each in a separate process that outlives this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from tidemill.common.configuration import Configuration
from tidemill.common.reports.exit_codes import ExitCode
from tidemill.config import (
    CheckpointingOptions,
    ExecutionOptions,
    PipelineOptions,
    StateRecoveryOptions,
)
from tidemill.config.unknown_keys import unknown_keys
from tidemill.errors import ConfigurationError
from tidemill.ops.drivers.program import CODE_VARIABLE, Program, has_workers_elsewhere, send_along
from tidemill.ops.drivers.records import drivers, records_directory
from tidemill.ops.drivers.starting import start_detached
from tidemill.ops.rest.errors import BadRequestError, ConflictError, UnavailableError
from tidemill.ops.rest.models.programs import ProgramPlan, RunRequest
from tidemill.ops.rest.program_store import ProgramStore, StoredProgram
from tidemill.ops.rest.savepoint_paths import checked_path, roots_of
from tidemill.python_versions import SAFELY

__all__ = ["Programs"]

#: Maximum number of programs that are started or planned at a time.
_MOST_STARTS: Final = 4
_PLAN_SECONDS: Final = 60.0
_LONGEST_PLAN: Final = 4 << 20
#: Maximum number of bytes of a failed program's log in the error message.
_TOLD: Final = 4000
#: Settings that are not passed to programs: a program listens on other ports, and does not accept programs itself.
_NOT_FOR_PROGRAMS: Final = ("rest.port", "rest.bind-port", "web.")
#: File that lists the log files of the runs of a program, one per line.
_RUNS: Final = "runs"


class Programs:
    """The programs of a server. Thread-safe.

    ``configuration`` specifies the directories of the savepoints from which programs may start. ``begin_with`` is the
    initial configuration of each program, except for ports.
    """

    def __init__(self, configuration: Configuration, begin_with: Configuration) -> None:
        self.store = ProgramStore(records_directory() / "programs")
        self._roots = [*filter(None, [configuration.get(CheckpointingOptions.DIRECTORY)]), *roots_of(configuration)]
        self._begin_with = begin_with
        self._starts = threading.Semaphore(_MOST_STARTS)

    def run(self, program: StoredProgram, asked: RunRequest) -> str:
        """Start a program and return the id of its first job.

        Raises :class:`BadRequestError` with the end of its log if it failed or ended without a job, and
        :class:`ConflictError` if it still runs without a job.
        """
        _check_text(asked)
        settings = self._settings(asked)
        with self._turn(program):
            named = Program(program.named(asked.entry_class), _arguments(asked.program_args))
            if program.archive is not None and has_workers_elsewhere(settings):
                send_along(settings, program.archive)
            started = start_detached(named, settings, _variables(program))
            with (program.folder / _RUNS).open("a", encoding="utf-8") as runs:
                runs.write(f"{started.log}\n")
        if started.has_failed:
            error = ConflictError if started.code == ExitCode.FENCED else BadRequestError
            with started.log.open("rb") as log:
                without = "" if started.code else " and without a job"
                raise error(f"the program ended with code {started.code}{without}: {_end_of(log)}")
        if not started.jobs:
            # Not UnavailableError, because a repeated request would run the program twice.
            raise ConflictError(
                f"the program runs in process {started.pid} but has no job yet: 'tidemill list' will show the job"
            )
        return started.jobs[0].id

    def plan(
        self, program: StoredProgram, entry: str | None, arguments: Sequence[str], parallelism: int | None
    ) -> ProgramPlan:
        """Return the output of ``tidemill info --json`` for a program, which runs up to its first job."""
        settings = self._settings(RunRequest(parallelism=parallelism))
        with self._turn(program), tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
            named = Program(program.named(entry), _arguments(arguments))
            file = Path(folder, "settings.yaml")
            file.write_text(json.dumps(settings.to_dict()), encoding="utf-8")  # JSON is YAML
            with Path(folder, "plan").open("w+b") as told, Path(folder, "log").open("w+b") as log:
                command = ["info", "--json", "--config", str(file), named.name, *named.arguments]
                code = _run(command, _variables(program), told, log)
                if code != 0:
                    raise BadRequestError(f"the program has no plan: it ended with code {code}: {_end_of(log)}")
                told.seek(0)
                try:
                    found = json.loads(told.read(_LONGEST_PLAN))
                    return ProgramPlan(name=found["name"], plan=found["plan"], guarantees=found["guarantees"])
                except (ValueError, KeyError, TypeError):
                    raise BadRequestError("the program has written output that is not a plan") from None

    def remove(self, program: StoredProgram) -> None:
        """Delete a program. Raises :class:`ConflictError` while it runs, because workers still read its files."""
        with self.store.held(program, alone=True):  # a concurrent start has recorded its run, or fails
            runs = program.folder / _RUNS
            logs = runs.read_text(encoding="utf-8").splitlines() if runs.exists() else []
            running = [driver for driver in drivers() if driver.alive and driver.log in logs]
            if running:
                told = [f"job {job.id}" for driver in running for job in driver.jobs]
                told += [f"process {driver.pid}" for driver in running if not driver.jobs]
                raise ConflictError(f"the program is running as {', '.join(told)}: stop it first")
            self.store.remove(program)

    def _settings(self, asked: RunRequest) -> Configuration:
        settings = Configuration()
        for key, text in self._begin_with.to_dict().items():
            if not key.startswith(_NOT_FOR_PROGRAMS):
                settings.set_string(key, text)
        # No setting is forbidden, because a client that may run a program can set anything in the program.
        for key, text in asked.configuration.items():
            try:
                settings.set_string(key, text)
            except ConfigurationError as error:
                raise BadRequestError(f"flinkConfiguration: {error}") from error
        if settings.get(PipelineOptions.STRICT_CONFIGURATION):
            for problem in unknown_keys(asked.configuration):
                raise BadRequestError(f"flinkConfiguration: {problem}")
        if asked.parallelism is not None:
            settings.set(PipelineOptions.PARALLELISM, asked.parallelism)
        if asked.savepoint_path is not None:
            path = checked_path(asked.savepoint_path, self._roots, "savepointPath")
            settings.set(StateRecoveryOptions.SAVEPOINT_PATH, path)
        if asked.allow_non_restored:
            settings.set(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE, True)
        if asked.job_id is not None:
            settings.set(ExecutionOptions.JOB_ID, asked.job_id)
        return settings

    @contextmanager
    def _turn(self, program: StoredProgram) -> Iterator[None]:
        if not self._starts.acquire(blocking=False):
            raise UnavailableError(f"{_MOST_STARTS} programs are being started: try again later")
        try:
            with self.store.held(program):
                yield
        finally:
            self._starts.release()


def _check_text(asked: RunRequest) -> None:
    """Reject unpaired surrogates, which are valid in JSON, but not in files or process arguments."""
    try:
        json.dumps(asked.model_dump(), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRequestError("body: it contains text that is not valid Unicode") from None


def _arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    if any("\0" in argument for argument in arguments):
        raise BadRequestError("programArgsList: an argument contains a NUL character")
    return tuple(arguments)


def _variables(program: StoredProgram) -> dict[str, str]:
    """Return the environment variables with which the command line finds the program."""
    return {CODE_VARIABLE: str(program.code)}


def _run(command: Sequence[str], variables: dict[str, str], output: IO[bytes], log: IO[bytes]) -> int:
    """Run the command line with a time limit and return its exit code. Kills all processes that it has started."""
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, *SAFELY, "-m", "tidemill", *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=log,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        return process.wait(_PLAN_SECONDS)
    except subprocess.TimeoutExpired:
        raise BadRequestError(f"the program has no plan after {_PLAN_SECONDS:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_of(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _TOLD))
    return log.read(_TOLD).decode("utf-8", "replace").strip() or "it has no output"
