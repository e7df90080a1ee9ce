"""``tidemill page``: the address of the web page of a running job, including the access token."""

from __future__ import annotations

import html
import ipaddress
import os
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import typer

from tidemill.ops.cli.arguments import AsJson, known_jobs
from tidemill.ops.cli.output import print_json
from tidemill.ops.drivers.client import job_address, token_of
from tidemill.ops.drivers.records import RestAddress, drivers, records_directory
from tidemill.ops.errors import NotThereError

__all__ = ["how_to_open", "page", "page_address"]


def page(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="A job id or a prefix of it. Not required if only one driver runs on this machine.",
            autocompletion=known_jobs,
        ),
    ] = None,
    opened: Annotated[bool, typer.Option("--open", help="Also open it in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the address of the web page of a running job.

    The address contains the token: anyone who has the address can do the same with the job as you can. The page shows
    all jobs of the driver.
    """
    address = page_address(_only_driver() if job is None else job_address(job, None, None).rest)
    if as_json:
        print_json({"page": address})
    else:
        typer.echo(address)
    if opened and not webbrowser.open(_leading_to(address).as_uri()):
        typer.echo("No browser could be opened here.", err=True)


def page_address(rest: RestAddress) -> str:
    """Return the address of a driver's page for a browser on this machine.

    The token is in the fragment, after ``#``, which browsers do not send to servers.

    >>> page_address(RestAddress("http://0.0.0.0:8081"))
    'http://127.0.0.1:8081/'
    """
    parts = urlsplit(rest.url)
    try:
        host = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        host = None
    if host is not None and host.is_unspecified:
        own = "127.0.0.1" if host.version == 4 else "[::1]"
        parts = parts._replace(netloc=f"{own}:{parts.port}")
    token = token_of(rest)
    return urlunsplit(parts._replace(path="/", fragment="" if token is None else f"token={token}"))


def how_to_open(rest: RestAddress, job_id: str, *, told: bool) -> str:
    """Return one line for the user: the address if only they can see it (``told``), otherwise how to get it."""
    if not told:
        return f"REST is at {rest.url}; 'tidemill page {job_id}' prints the address of its page."
    return f"Its page: {page_address(rest)}"


def _only_driver() -> RestAddress:
    """Return the REST address of the only driver that runs on this machine."""
    living = {driver.rest: driver.jobs for driver in drivers() if driver.alive and driver.jobs and driver.rest}
    if not living:
        raise NotThereError("no driver with a page runs on this machine: see 'tidemill list'")
    if len(living) > 1:
        ids = ", ".join(one.id for jobs in living.values() for one in jobs)
        raise NotThereError(f"several drivers run on this machine: specify a job, tidemill page JOB, one of {ids}")
    return next(iter(living))


def _leading_to(address: str) -> Path:
    """Write a file that redirects to the address and that only this user can read.

    Other users on this machine can see the arguments of a browser process, so the address must not be an argument.
    """
    path = records_directory() / "page.html"
    path.unlink(missing_ok=True)
    content = f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">\n'
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    return path
