"""``tidemill run`` and ``tidemill info``: a program is started, or only looked at."""

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
from tidemill.config import CheckpointingOptions, PipelineOptions, RestOptions, SparkOptions, StateRecoveryOptions
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
from tidemill.ops.driver_log import LOG_VARIABLE
from tidemill.ops.drivers.program import Program, has_workers_elsewhere, send_along
from tidemill.ops.drivers.records import DriverJob, DriverRecord, RestAddress, recorded
from tidemill.ops.rest.notices import unannounced

__all__ = ["info", "run"]

ProgramArgument = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="A script, or module:function.", show_default=False)
]
ProgramArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="Handed to the program.", show_default=False)
]
Parallelism = Annotated[int | None, typer.Option("-p", "--parallelism", min=1, help="Default parallelism.")]
Savepoint = Annotated[
    str | None,
    typer.Option("-s", "--from-savepoint", metavar="PATH", help="Savepoint or checkpoint to start from."),
]
PreferLatest = Annotated[
    bool,
    typer.Option("--prefer-latest", help="Go on from the job's own last epoch, if it has one, whatever -s says."),
]
NonRestored = Annotated[
    bool,
    typer.Option("-n", "--allow-non-restored-state", help="Leave state behind that no operator of the program claims."),
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master, such as local[4] or spark://…")
]
PythonFiles = Annotated[
    str | None,
    typer.Option(
        "--py-files", "-pyfs", metavar="FILES", help="Python files and zips for workers, with commas between."
    ),
]


def run(
    program: ProgramArgument,
    arguments: ProgramArguments = None,
    parallelism: Parallelism = None,
    savepoint: Savepoint = None,
    prefer_latest: PreferLatest = False,
    allow_non_restored: NonRestored = False,
    master: Master = None,
    python_files: PythonFiles = None,
    detached: Annotated[
        bool, typer.Option("-d", "--detached", help="Run it in a process of its own, and return once it has a job.")
    ] = False,
    defined: Defined = None,
    config: ConfigFile = None,
) -> None:
    """Run a program, and wait for its end.

    Options are what the program begins with; what it sets itself has precedence. They stand before the program: what
    follows it, the program gets. While it runs it can be asked and steered, by 'tidemill cancel' and the like, on its
    page ('tidemill page') and by REST at the first free port from 8081 (rest.bind-port), from this machine and by its
    user only; with -D rest.enabled=false it cannot.

    The exit code is 0 if it finished or was cancelled, 1 if it failed and may do better when it is started again, 3 if
    another driver runs the job, 4 if the program, its configuration or what it finds in storage must be mended.
    """
    settings = _settings(config, defined, parallelism, savepoint, allow_non_restored, master, python_files)
    if prefer_latest:
        settings.set(StateRecoveryOptions.PREFER_LATEST, True)
    serve_rest(settings)
    named = Program(program, tuple(arguments or ()), tuple(python_files_of(settings)))
    if detached:
        run_detached(named, settings)
        return
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
            typer.echo(f"note: {program} has ended without executing a job", err=True)
        for job, client in clients:
            record.put(_ended(job, client))
        if settings.get(RestOptions.ENABLED) and clients:
            _take_leave()
        raise SystemExit(code)  # seen by the record too


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
    """Show the plan of a program, without running it.

    The plan has levels, operators, exchanges, and what each sink guarantees.
    With a savepoint, also what becomes of each state in it; the exit code is 4 if the program cannot start from it.
    Of a program with several jobs, the first one is shown.
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
    """Ends a program at its first job. No Exception: a program that catches those must not go on."""

    def __init__(self, program: JobProgram) -> None:
        super().__init__()
        self.program = program


def _program_of(program: Program, settings: Configuration) -> JobProgram:
    """The first job that a program would run."""

    def take(taken: JobProgram) -> NoReturn:
        raise _Seen(taken)

    try:
        # The standard output is for the plan.
        with configured_from_outside(settings), execution.handing_over(take), redirect_stdout(sys.stderr):
            program.run()
    except _Seen as seen:
        return seen.program
    except BaseException as error:
        raise typer.Exit(ended_with(error)) from error
    raise JobExecutionError(f"{program.name} has ended without executing a job: does it call env.execute()?")


def _started(program: JobProgram, record: DriverRecord, clients: list[tuple[DriverJob, JobClient]]) -> JobClient:
    """Run a job, and note that this driver does."""
    with unannounced():  # it is said below, with how to open the page
        client = execution.run(program)
    job_id = str(client.get_job_id())
    directory = program.configuration.get(CheckpointingOptions.DIRECTORY)
    job = DriverJob(job_id, program.name, directory and f"{_absolute(directory).rstrip('/')}/{job_id}")
    rest = _rest_address(program.configuration)
    record.put(job, rest)
    clients.append((job, client))
    page = "" if rest is None else " " + how_to_open(rest, job_id, told=is_attended(sys.stderr))
    typer.echo(f"Job {job_id} ({program.name}) was started.{page}", err=True)
    return client


def _ended(job: DriverJob, client: JobClient) -> DriverJob:
    """What became of a job: who asked for its end may come to know it only from the record."""
    savepoint = client.get_checkpoint_history().latest_savepoint
    status = client.get_job_status().result().name
    return replace(job, status=status, savepoint=None if savepoint is None else savepoint.path)


def _take_leave() -> None:
    """Let clients know what became of what they asked for, before the process ends."""
    from tidemill.ops.rest.server import servers

    for server in servers():
        server.finish()


def _rest_address(configuration: Configuration) -> RestAddress | None:
    """Where this driver's REST server listens, if it has one."""
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
    """A path for processes in other directories; URIs as they are."""
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
    """The options as the configuration that a program begins with."""
    settings = configured(config, defined)
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
