"""``tidemill run -d``: run a program in a separate process that outlives the shell from which it was started."""

from __future__ import annotations

import sys

import typer

from tidemill.common.configuration import Configuration
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.cli.output import is_attended, print_json, waiting
from tidemill.ops.cli.page import how_to_open
from tidemill.ops.drivers.program import Program
from tidemill.ops.drivers.starting import start_detached

__all__ = ["run_detached"]


def run_detached(program: Program, settings: Configuration, *, as_json: bool = False) -> None:
    """Start the program in a separate session, wait until it has a job or has ended, and print the result."""
    with waiting(f"starting {program.name}"):
        try:
            started = start_detached(program, settings)
        except KeyboardInterrupt:
            typer.echo(f"interrupted: {program.name} had no job yet and was terminated", err=True)
            raise typer.Exit(CommandExit.INTERRUPTED) from None
    log, jobs, driver = started.log, started.jobs, started.driver
    if started.has_failed:
        typer.echo(log.read_text(encoding="utf-8", errors="replace")[-4000:], err=True, nl=False)
        typer.echo(f"error: {program.name} ended immediately, with code {started.code}; its log is {log}", err=True)
        raise typer.Exit(started.code or 1)
    if as_json:
        rest = None if driver is None or driver.rest is None else driver.rest.url
        found = [{"id": job.id, "name": job.name} for job in jobs]
        print_json({"jobs": found, "process": started.pid, "rest": rest, "log": str(log)})
        return
    for job in jobs:
        typer.echo(f"Job {job.id} ({job.name}) was started in process {started.pid}.")
    if not jobs:
        typer.echo(f"Process {started.pid} was started and has no job yet.")
    if driver is not None and driver.rest is not None:
        typer.echo(how_to_open(driver.rest, jobs[0].id, told=is_attended(sys.stdout)))
    typer.echo(f"Its log is {log}")
