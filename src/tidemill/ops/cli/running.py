"""``tidemill run`` and ``tidemill info``: run a program, or only show its plan."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.config import (
    CheckpointingOptions,
    ExecutionOptions,
    PipelineOptions,
    RestOptions,
    SparkOptions,
    StateRecoveryOptions,
)
from tidemill.datastream.environment.outer_configuration import configured_from_outside
from tidemill.datastream.environment.settings import python_files as python_files_of
from tidemill.datastream.program import execution
from tidemill.datastream.program.execution import JobProgram
from tidemill.errors import JobExecutionError
from tidemill.graph.guarantees import promises
from tidemill.ops.cli.arguments import AsJson, ConfigFile, Defined, configured, serve_rest
from tidemill.ops.cli.detached import run_detached
from tidemill.ops.cli.failures import ended_with, finding
from tidemill.ops.cli.output import is_attended, print_json
from tidemill.ops.cli.page import how_to_open
from tidemill.ops.drivers.program import Program, has_workers_elsewhere, send_along
from tidemill.ops.drivers.records import DriverJob, DriverRecord, RestAddress, recorded
from tidemill.ops.rest.notices import unannounced
from tidemill.runtime.history.archive import history_of
from tidemill.runtime.observe.driver_log import LOG_VARIABLE

__all__ = ["info", "run"]

ProgramArgument = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="A script, or module:function.", show_default=False)
]
ProgramArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="Passed to the program.", show_default=False)
]
Parallelism = Annotated[int | None, typer.Option("-p", "--parallelism", min=1, help="Default parallelism.")]
Savepoint = Annotated[
    str | None,
    typer.Option("-s", "--from-savepoint", metavar="PATH", help="Savepoint or checkpoint to start from."),
]
PreferLatest = Annotated[
    bool,
    typer.Option("--prefer-latest", help="Resume from the last epoch of the job, if it has one, regardless of -s."),
]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="Take the job over from a driver that is alive, which then stops."),
]
NonRestored = Annotated[
    bool,
    typer.Option("-n", "--allow-non-restored-state", help="Skip state that belongs to no operator of the program."),
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master, such as local[4] or spark://…")
]
PythonFiles = Annotated[
    str | None,
    typer.Option(
        "--py-files", "-pyfs", metavar="FILES", help="Comma-separated Python files and zip files for workers."
    ),
]


def run(
    program: ProgramArgument,
    arguments: ProgramArguments = None,
    parallelism: Parallelism = None,
    savepoint: Savepoint = None,
    prefer_latest: PreferLatest = False,
    take_over: TakeOver = False,
    allow_non_restored: NonRestored = False,
    master: Master = None,
    python_files: PythonFiles = None,
    detached: Annotated[
        bool, typer.Option("-d", "--detached", help="Run it in a separate process, and return once it has a job.")
    ] = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="With -d: print one JSON document.")] = False,
) -> None:
    """Run a program and wait until it ends.

    Options set the initial configuration of the program; settings of the program itself take precedence. Options must
    precede the program: arguments after it are passed to the program. While the program runs, it can be monitored and
    controlled with commands such as 'tidemill cancel', on its web page ('tidemill page'), and through REST at the first
    free port from 8081 (rest.bind-port), but only from this machine and by the same user. -D rest.enabled=false
    disables this.

    The exit code is 0 if the job finished or was cancelled, 1 if it failed and a restart may help, 3 if another driver
    runs the job, 4 if the program, its configuration or its storage must be fixed.
    """
    settings = _settings(config, defined, parallelism, savepoint, allow_non_restored, master, python_files)
    if prefer_latest:
        settings.set(StateRecoveryOptions.PREFER_LATEST, True)
    if take_over:
        settings.set(ExecutionOptions.TAKE_OVER, True)
    serve_rest(settings)
    named = Program(program, tuple(arguments or ()), tuple(python_files_of(settings)))
    if detached:
        run_detached(named, settings, as_json=as_json)
        return
    if as_json:
        raise typer.BadParameter("the output is that of the program: use it with -d", param_hint="'--json'")
    code = 0
    clients: list[tuple[DriverJob, JobClient]] = []
    with ExitStack() as stack:
        record = stack.enter_context(recorded(program, os.environ.get(LOG_VARIABLE)))
        if has_workers_elsewhere(settings):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-")))
            if (code_beside := named.ship(folder)) is not None:
                send_along(settings, code_beside)
        stack.enter_context(configured_from_outside(settings))
        stack.enter_context(execution.handing_over(lambda taken: _started(taken, record, clients)))
        try:
            named.run()
        except BaseException as error:
            code = ended_with(error)
        if code == 0 and not clients:
            typer.echo(f"note: {program} ended without executing a job", err=True)
        for job, client in clients:
            record.put(_ended(job, client))
        if settings.get(RestOptions.ENABLED) and clients:
            _take_leave()
        raise SystemExit(code)  # so that the record sees the code too


def info(
    program: ProgramArgument,
    arguments: ProgramArguments = None,
    parallelism: Parallelism = None,
    savepoint: Savepoint = None,
    allow_non_restored: NonRestored = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the plan of a program without running it.

    The plan contains levels, operators, exchanges, and the guarantee of each sink.
    With a savepoint, also shows how each state in it is restored; the exit code is 4 if the program cannot start from
    the savepoint. If the program has several jobs, only the first one is shown.
    """
    settings = _settings(config, defined, parallelism, savepoint, allow_non_restored, None, None)
    named = Program(program, tuple(arguments or ()), tuple(python_files_of(settings)))
    taken = _program_of(named, settings)
    plan = execution.compile_program(taken)
    report = None
    if savepoint is not None:
        with finding():
            report = execution.check_upgrade(taken, savepoint)
    if as_json:
        document: dict[str, Any] = {
            "name": taken.name,
            "plan": json.loads(execution.plan_as_json(taken)),
            "guarantees": [
                {"sink": promise.sink, "guarantee": promise.guarantee, "because": list(promise.because)}
                for promise in promises(plan)
            ],
        }
        if report is not None:
            document["upgrade"] = [
                {
                    "operator": change.operator,
                    "name": change.name,
                    "state": change.state,
                    "outcome": change.outcome.value,
                    "stored": change.stored,
                    "declared": change.declared,
                    "detail": change.detail,
                }
                for change in report.changes
            ]
        print_json(document)
    else:
        typer.echo(execution.plan_as_text(taken))
        if report is not None:
            typer.echo(f"\n{report}")
    if report is not None:
        report.check()


class _Seen(BaseException):
    """Ends a program at its first job. Not an Exception, so that a program that catches those does not continue."""

    def __init__(self, program: JobProgram) -> None:
        super().__init__()
        self.program = program


def _program_of(program: Program, settings: Configuration) -> JobProgram:
    """Return the first job that a program would run."""

    def take(taken: JobProgram) -> NoReturn:
        raise _Seen(taken)

    try:
        # Standard output is reserved for the plan.
        with configured_from_outside(settings), execution.handing_over(take), redirect_stdout(sys.stderr):
            program.run()
    except _Seen as seen:
        return seen.program
    except BaseException as error:
        raise typer.Exit(ended_with(error)) from error
    raise JobExecutionError(f"{program.name} ended without executing a job: does it call env.execute()?")


def _started(program: JobProgram, record: DriverRecord, clients: list[tuple[DriverJob, JobClient]]) -> JobClient:
    """Run a job, and record that this driver runs it."""
    with unannounced():  # it is announced below, with how to open the page
        client = execution.run(program)
    job_id = str(client.get_job_id())
    directory = program.configuration.get(CheckpointingOptions.DIRECTORY)
    history = history_of(program.configuration)
    job = DriverJob(
        job_id,
        program.name,
        directory and f"{_absolute(directory).rstrip('/')}/{job_id}",
        history=history and _absolute(history),
    )
    rest = _rest_address(program.configuration)
    record.put(job, rest)
    clients.append((job, client))
    page = "" if rest is None else " " + how_to_open(rest, job_id, told=is_attended(sys.stderr))
    from tidemill.runtime.driver.job import RunningJob  # imported with the job, not with the command line

    resumes = client.outline.resumes if isinstance(client, RunningJob) and client.outline is not None else ""
    resumes = f" It {resumes}." if resumes else ""
    typer.echo(f"Job {job_id} ({program.name}) was started.{resumes}{page}", err=True)
    return client


def _ended(job: DriverJob, client: JobClient) -> DriverJob:
    """Return the final state of a job for the record, from which clients may read it after the driver has ended."""
    savepoint = client.get_checkpoint_history().latest_savepoint
    status = client.get_job_status().result().name
    path = None if savepoint is None else savepoint.path
    from tidemill.runtime.driver.job import RunningJob  # imported with the job, not with the command line

    if not isinstance(client, RunningJob):
        return replace(job, status=status, savepoint=path)
    epoch = client.epochs[-1].epoch if client.epochs else 0
    return replace(job, status=status, savepoint=path, epoch=epoch, restarts=client.num_restarts)


def _take_leave() -> None:
    """Let clients receive the results of their operations before the process ends."""
    from tidemill.ops.rest.server import servers

    for server in servers():
        server.finish()


def _rest_address(configuration: Configuration) -> RestAddress | None:
    """Return the address of this driver's REST server, if it has one."""
    if not configuration.get(RestOptions.ENABLED):
        return None
    from tidemill.ops.rest.server import servers
    from tidemill.ops.rest.settings import RestSettings

    wanted = RestSettings.of(configuration)
    for server in servers():
        if server.settings == wanted:
            certificate = wanted.certificate
            where = configuration.get(RestOptions.OPERATE_TOKEN)
            if where is not None and where.startswith("file:"):
                where = f"file:{_absolute(where.removeprefix('file:'))}"
            return RestAddress(server.url, where, certificate and _absolute(certificate))
    return None


def _absolute(path: str) -> str:
    """Make a path absolute, for processes in other directories. URIs are unchanged."""
    return path if ":" in path.partition("/")[0] else str(Path(path).absolute())


def _settings(
    config: Path | None,
    defined: list[str] | None,
    parallelism: int | None,
    savepoint: str | None,
    allow_non_restored: bool,
    master: str | None,
    python_files: str | None,
) -> Configuration:
    """Return the initial configuration of a program, from the options."""
    settings = configured(config, defined, warn=False)
    if parallelism is not None:
        settings.set(PipelineOptions.PARALLELISM, parallelism)
    if savepoint is not None:
        settings.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint)
    if allow_non_restored:
        settings.set(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE, True)
    if master is not None:
        settings.set(SparkOptions.MASTER, master)
    if python_files is not None:
        settings.set(PipelineOptions.PYTHON_FILES, python_files)
    return settings
