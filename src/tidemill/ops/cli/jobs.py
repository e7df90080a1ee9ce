"""``tidemill list``, ``checkpoints`` and ``logs``: list jobs, their checkpoints and logs.

``tidemill savepoint`` is in ``steering.py``; its option to delete a savepoint calls :func:`dispose` here.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidemill.checkpoint.names import MANIFESTS
from tidemill.checkpoint.storage.storages import LocalStorage, Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.common.job_status import JobStatus
from tidemill.config import CheckpointingOptions
from tidemill.errors import CheckpointError, TidemillError
from tidemill.ops.cli.arguments import (
    AsJson,
    Authority,
    ConfigFile,
    Defined,
    Identity,
    JobArgument,
    RestUrl,
    RunningJob,
    Token,
    configured,
    location_of,
    open_reader,
)
from tidemill.ops.cli.failures import finding
from tidemill.ops.cli.output import elapsed, moment, print_json, print_table, size
from tidemill.ops.drivers.client import DriverGoneError, JobAddress, job_address
from tidemill.ops.drivers.records import Driver, DriverJob, driver_of, drivers, forget_ended
from tidemill.ops.errors import NotThereError

__all__ = ["checkpoints", "dispose", "list_jobs", "logs"]

#: Timeout of the request for the status of one job in a list.
_PATIENCE_SECONDS: Final = 2.0
#: Maximum number of log lines to request from a driver at a time.
_MOST_LINES: Final = 10_000
#: The length of ids and names in a table that fits 80 columns: 16 + 16 + 10 (RESTARTING) + 7 + 10 + 8 and 5 gaps of 2.
_SHORT: Final = 16
_CHECKPOINT: Final = re.compile(r"/chk-\d+$")


@dataclass(frozen=True)
class _JobLine:
    """A job in the list.

    ``status`` is the status that the driver reports or last recorded. It is ENDED if the driver was killed, FINISHED or
    UNKNOWN if only the files of the job are known, and DAMAGED if these cannot be read.
    """

    id: str
    name: str | None = None
    status: str = "UNKNOWN"
    epoch: int | None = None
    committed: int | None = None
    bytes: int | None = None
    directory: str | None = None
    pid: int | None = None
    detail: str | None = None


def list_jobs(
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIRECTORY]", help="A checkpoint directory. Default: execution.checkpointing.dir."),
    ] = None,
    running: Annotated[bool, typer.Option("-r", "--running", help="Only jobs whose driver is running.")] = False,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Only jobs with this status. Can be repeated."),
    ] = None,
    wide: Annotated[
        bool, typer.Option("-w", "--wide", help="Show full ids, times, processes and directories on a terminal too.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="First forget the drivers that have ended, with their logs. Checkpoints are kept."
        ),
    ] = False,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, running or not.

    Lists the jobs that 'tidemill run' has started on this machine, and those whose checkpoints are in the directory.
    """
    settings = configured(config, defined)
    where = directory or settings.get(CheckpointingOptions.DIRECTORY)
    if prune:
        typer.echo(f"Ended drivers that were forgotten: {forget_ended()}", err=True)
    lines = _from_drivers(settings)
    if where is not None:
        for line in _from_directory(where, settings):
            if all(line.id != known.id for known in lines):
                lines.append(line)
    wanted = {one.upper() for one in status or ()}
    lines = [line for line in lines if (line.pid is not None or not running) and (not wanted or line.status in wanted)]
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    hint = "" if where else ", and no checkpoint directory was specified"
    empty = f"no jobs found{hint}"
    if wide or not sys.stdout.isatty():
        columns = ("job", "name", "status", "epoch", "committed", "state", "process", "directory")
        print_table(columns, [_wide(line) for line in lines], empty=empty)
    else:
        ids = [line.id for line in lines]
        now = time.time_ns() // 1_000_000
        rows = [_narrow(line, ids, now) for line in lines]
        print_table(("job", "name", "status", "epoch", "committed", "state"), rows, empty=empty)


def _wide(line: _JobLine) -> tuple[object, ...]:
    return (
        line.id,
        line.name,
        line.status,
        line.epoch,
        None if line.committed is None else moment(line.committed),
        None if line.bytes is None else size(line.bytes),
        line.pid,
        line.directory or line.detail,
    )


def _narrow(line: _JobLine, ids: Sequence[str], now: int) -> tuple[object, ...]:
    """Return the cells of a line of at most 80 columns. Commands accept the beginning of an id, if it is unique."""
    short = line.id[:_SHORT]
    name = line.name or ""
    return (
        short if sum(one.startswith(short) for one in ids) == 1 else line.id,
        name if len(name) <= _SHORT else f"{name[: _SHORT - 1]}…",
        line.status,
        line.epoch,
        None if line.committed is None else elapsed(line.committed, now),
        None if line.bytes is None else size(line.bytes),
    )


def _from_drivers(settings: Configuration) -> list[_JobLine]:
    lines: dict[str, _JobLine] = {}
    for driver in drivers():
        for job in reversed(driver.jobs):
            status = _status(job, driver)
            pid = driver.pid if driver.alive else None
            line = _JobLine(job.id, job.name, status, directory=job.directory, pid=pid)
            known = lines.get(job.id)
            if known is None or (known.pid is None and pid is not None):
                lines[job.id] = _with_files(line, settings)
    return list(lines.values())


def _status(job: DriverJob, driver: Driver) -> str:
    """Return the status of a job that its driver reports, or last recorded."""
    if not driver.alive:
        return job.status or "ENDED"
    if driver.rest is not None:
        with contextlib.suppress(TidemillError):
            return str(JobAddress(job.id, driver.rest).ask("GET", seconds=_PATIENCE_SECONDS)["state"])
    return JobStatus.RUNNING.name


def _with_files(line: _JobLine, settings: Configuration) -> _JobLine:
    """Add the information from the files of the job to the line, if files exist."""
    if line.directory is None:
        return line
    try:
        found = _from_files(line.id, line.directory, settings)
    except CheckpointError:
        return line
    return replace(line, epoch=found.epoch, committed=found.committed, bytes=found.bytes)


def _from_directory(directory: str, settings: Configuration) -> list[_JobLine]:
    storage = storage_for(directory, durable=False, options=store_options(settings))
    lines = []
    place = directory.rstrip("/")
    if storage.list(MANIFESTS):  # it is the directory of one job
        found = {place.rpartition("/")[2]: place}
    else:
        found = {job: f"{place}/{job}" for job in _jobs_in(storage, directory)}
    for job, path in found.items():
        try:
            lines.append(_from_files(job, path, settings))
        except CheckpointError as error:
            lines.append(_JobLine(job, status="DAMAGED", directory=path, detail=str(error)))
    return lines


def _jobs_in(storage: Storage, directory: str) -> list[str]:
    """Return the names of the job directories in a directory."""
    if isinstance(storage, LocalStorage):
        if not storage.root.is_dir():
            raise NotThereError(f"{directory} does not exist")
        return sorted(child.name for child in storage.root.iterdir() if (child / MANIFESTS).is_dir())
    names = (name.partition("/") for name in storage.list())
    return sorted({job for job, _, rest in names if rest.startswith(MANIFESTS)})


def _from_files(job: str, path: str, settings: Configuration) -> _JobLine:
    from tidemill.state_processor import read

    newest = read(path, configuration=settings).epoch_info
    status = "FINISHED" if newest.finished else "UNKNOWN"
    return _JobLine(job, None, status, newest.epoch, newest.clock or None, newest.bytes, path)


def checkpoints(job: JobArgument, defined: Defined = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the committed epochs of a job that can be read.

    A job can start from each of them (-s PATH), and 'tidemill state' shows its state. Retained checkpoints are kept;
    other epochs are deleted as the job continues.
    """
    settings = configured(config, defined)
    state = open_reader(job, None, settings)
    with finding():
        epochs = state.epochs()
    place = _directory_of(job, state.job_id, settings)
    found: list[dict[str, Any]] = [
        {
            "epoch": epoch.epoch,
            "committed": epoch.clock,
            "kind": "checkpoint" if epoch.retained else "epoch",
            "finished": epoch.finished,
            "bytes": epoch.bytes,
            "path": f"{place}/chk-{epoch.epoch}",
        }
        for epoch in epochs
        if epoch.epoch  # epoch 0 precedes the first one
    ]
    if as_json:
        print_json({"job": state.job_id, "checkpoints": found})
        return
    rows = [(one["epoch"], moment(one["committed"]), one["kind"], size(one["bytes"]), one["path"]) for one in found]
    print_table(("epoch", "committed", "kind", "state", "path"), rows, empty="no epoch can be read")


def _directory_of(job: str, job_id: str, settings: Configuration) -> str:
    """Return the directory of a job, given as this directory, a checkpoint, or a directory with this job only."""
    location = _CHECKPOINT.sub("", location_of(job, settings).rstrip("/"))
    storage = storage_for(location, durable=False, options=store_options(settings))
    return location if storage.list(MANIFESTS) else f"{location}/{job_id}"


def dispose(path: str, settings: Configuration) -> None:
    """Delete a savepoint. Raises :class:`NotThereError` and deletes nothing if the path is not a savepoint."""
    from tidemill.checkpoint.savepoint import dispose_savepoint

    with finding():
        dispose_savepoint(path, store_options(settings))


def logs(
    job: RunningJob,
    lines: Annotated[int, typer.Option("-l", "--lines", min=0, help="Number of last lines to show.")] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the driver ends.")] = False,
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each line as a JSON string.")] = False,
) -> None:
    """Show the log of a detached program.

    The log contains all output of a program that was started with 'tidemill run -d'. With --rest, it is requested from
    a driver on another machine.
    """
    if rest is not None:
        _ask_for_logs(job_address(job, rest, token, cacert, cert), lines, follow, as_json=as_json)
        return
    driver, _ = driver_of(job)
    if driver.log is None or not Path(driver.log).is_file():
        raise NotThereError(f"job {job} has no log: its program was not started with 'tidemill run -d'")
    with Path(driver.log).open(encoding="utf-8", errors="replace") as file:
        _print_log("".join(deque(file, maxlen=lines)), as_json=as_json)
        while follow:
            alive = driver_of(job)[0].alive
            _print_log(file.read(), as_json=as_json)
            if not alive:
                break
            time.sleep(0.2)


def _print_log(text: str, *, as_json: bool) -> None:
    for line in text.splitlines() if as_json else ():
        typer.echo(json.dumps(line, ensure_ascii=False))
    if not as_json:
        typer.echo(text, nl=False)


def _ask_for_logs(address: JobAddress, lines: int, follow: bool, *, as_json: bool) -> None:
    """Show the log that a driver returns; with ``follow``, until the driver ends."""
    answer = address.ask("GET", f"/logs?lines={min(max(lines, 1), _MOST_LINES)}")
    shown = answer["lines"][-lines:] if lines else []
    _print_log("".join(f"{line}\n" for line in shown), as_json=as_json)
    while follow:
        time.sleep(1)
        try:
            answer = address.ask("GET", f"/logs?lines={_MOST_LINES}&after={answer['next']}")
        except DriverGoneError:
            break
        _print_log("".join(f"{line}\n" for line in answer["lines"]), as_json=as_json)
