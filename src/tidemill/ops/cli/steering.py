"""``tidemill cancel``, ``stop``, ``savepoint`` and ``rescale``: requests to the driver of a running job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidemill.common.job_status import JobStatus
from tidemill.errors import JobExecutionError
from tidemill.ops.cli.arguments import (
    AsJson,
    Authority,
    ConfigFile,
    Defined,
    Identity,
    RestUrl,
    RunningJob,
    Token,
    configured,
    known_jobs,
)
from tidemill.ops.cli.jobs import dispose
from tidemill.ops.cli.output import print_json, waiting
from tidemill.ops.drivers.client import DriverGoneError, JobAddress, job_address
from tidemill.ops.drivers.records import DriverJob, driver_of
from tidemill.ops.errors import NotThereError

__all__ = ["cancel", "rescale", "savepoint", "stop"]

#: How long to wait for the end of a driver that no longer responds.
_END_SECONDS: Final = 30.0

Target = Annotated[
    str | None,
    typer.Option("-p", "--savepoint-path", metavar="DIRECTORY", help="Default: execution.checkpointing.savepoint-dir."),
]


def cancel(
    job: RunningJob,
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job.

    Waits until the job is cancelled. Its committed state is kept, unless the job is configured to delete it.
    """
    address = job_address(job, rest, token, cacert, cert)
    address.ask("PATCH", "?mode=cancel")
    with waiting("cancelling"):
        status = _end_of(address)
    if status not in (None, JobStatus.CANCELED.name):
        raise JobExecutionError(f"job {address.job_id} is {status}: it ended before it was cancelled")
    _report(as_json, f"Job {address.job_id} is cancelled.", {"job": address.job_id, "status": JobStatus.CANCELED.name})


def stop(
    job: RunningJob,
    target: Target = None,
    drain: Annotated[
        bool,
        typer.Option("-d", "--drain", help="Fire all windows and timers first. The job is then finished permanently."),
    ] = False,
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    as_json: AsJson = False,
) -> None:
    """Stop a job with a savepoint.

    The job processes nothing after the savepoint. If the savepoint fails, the job continues.
    """
    address = job_address(job, rest, token, cacert, cert)
    path = _savepoint(address, "/stop", {"drain": drain, **_target(target)}, "stopping")
    done = {"job": address.job_id, "savepoint": path, "drained": drain}
    _report(as_json, f"Job {address.job_id} is stopped; its savepoint is {path}", done)


def savepoint(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="A job id or a prefix of it.", autocompletion=known_jobs),
    ] = None,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIRECTORY]", help="Default: execution.checkpointing.savepoint-dir."),
    ] = None,
    disposed: Annotated[
        str | None, typer.Option("-d", "--dispose", metavar="PATH", help="Only delete this savepoint.")
    ] = None,
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    defined: Defined = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint, or delete one.

    The job continues while the savepoint is taken. No job is required to delete a savepoint.
    """
    if (job is None) == (disposed is None):
        raise typer.BadParameter("specify either a job, or -d with the path of a savepoint")
    if disposed is not None:
        dispose(disposed, configured(config, defined))
        _report(as_json, f"Savepoint {disposed} is deleted.", {"savepoint": disposed, "deleted": True})
        return
    address = job_address(job or "", rest, token, cacert, cert)
    path = _savepoint(address, "/savepoints", _target(directory), "taking a savepoint")
    _report(as_json, f"Savepoint {path} is complete.", {"job": address.job_id, "savepoint": path})


def rescale(
    job: RunningJob,
    parallelism: Annotated[
        int | None, typer.Option("-p", "--parallelism", min=1, help="For all operators that do not specify their own.")
    ] = None,
    operators: Annotated[
        list[str] | None,
        typer.Option("-o", "--operator", metavar="UID=N", help="For one operator. Can be repeated."),
    ] = None,
    rest: RestUrl = None,
    token: Token = None,
    cacert: Authority = None,
    cert: Identity = None,
    as_json: AsJson = False,
) -> None:
    """Change the parallelism of a running job.

    The parallelism changes between two epochs, without a restart. Waits for the first epoch with the new parallelism.
    """
    if (parallelism is None) == (not operators):
        raise typer.BadParameter("specify either -p, or -o for each operator")
    wanted = {}
    for pair in operators or ():
        uid, _, number = pair.rpartition("=")
        if not uid or not number.isdecimal():
            raise typer.BadParameter(f"{pair!r} is not of the form UID=N", param_hint="'-o'")
        wanted[uid] = int(number)
    query = "" if parallelism is None else f"?parallelism={parallelism}"
    body = {"parallelism": wanted} if wanted else None
    address = job_address(job, rest, token, cacert, cert)
    with waiting("rescaling"):
        address.operate("rescaling", "PATCH", f"/rescaling{query}", body)
    done = {"job": address.job_id, "parallelism": wanted or parallelism}
    _report(as_json, f"Job {address.job_id} runs with the new parallelism.", done)


def _report(as_json: bool, text: str, done: dict[str, Any]) -> None:
    """Print what has been done."""
    if as_json:
        print_json(done)
    else:
        typer.echo(text)


def _target(directory: str | None) -> dict[str, str]:
    if directory is None:
        return {}
    return {"target-directory": directory if ":" in directory.partition("/")[0] else str(Path(directory).absolute())}


def _savepoint(address: JobAddress, path: str, body: dict[str, Any], label: str) -> str:
    """Take a savepoint and return its location.

    The driver of a stopped job may end before it can report the location; then its record is read.
    """
    with waiting(label):
        try:
            return str(address.operate("savepoints", "POST", path, body)["location"])
        except DriverGoneError:
            ended = _last_words(address)
            if ended is None or ended.savepoint is None:
                raise
            return ended.savepoint


def _end_of(address: JobAddress) -> str | None:
    """Wait for the end of a job and return its last status, or None if it is no longer available."""
    while True:
        try:
            status = address.ask("GET")["state"]
        except DriverGoneError:
            ended = _last_words(address)
            return None if ended is None else ended.status
        if JobStatus[status].is_terminal_state():
            return str(status)
        time.sleep(0.1)


def _last_words(address: JobAddress) -> DriverJob | None:
    """Return what a driver on this machine recorded about a job, once the driver has ended."""
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        try:
            driver, job = driver_of(address.job_id)
        except NotThereError:
            return None
        if driver.rest is None or driver.rest.url != address.rest.url:
            return None
        if not driver.alive:
            return job
        time.sleep(0.1)
    return None
