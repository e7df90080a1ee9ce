"""``tidemill run -d``: a program in a process of its own, which outlives the shell it was started from."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import typer
import yaml

from tidemill.common.configuration import Configuration
from tidemill.ops.cli.drivers import DriverJob, drivers, new_log
from tidemill.ops.cli.output import waiting
from tidemill.ops.cli.program import Program

__all__ = ["LOG_VARIABLE", "run_detached"]

#: Set for the process of a detached program: the file that its output goes to.
LOG_VARIABLE: Final = "TIDEMILL_LOG"
#: How long a program may take until it has a job: Spark itself needs ten seconds or more.
_START_SECONDS: Final = 120.0


def run_detached(program: Program, settings: Configuration) -> None:
    """Start the program in a session of its own, and wait until it has a job, or has ended."""
    log = new_log(program.name)
    command = [sys.executable, "-m", "tidemill", "run"]
    with log.with_suffix(".yaml").open("x", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)  # it may hold secrets
        yaml.safe_dump(settings.to_dict(), file, allow_unicode=True)
    command += ["--config", file.name, program.name, *program.arguments]
    begun = time.time_ns() // 1_000_000
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - this very program
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, LOG_VARIABLE: str(log)},
                start_new_session=True,
            )
        with waiting(f"starting {program.name}"):
            code, jobs = _await_job(process, begun)
        # Should this process go on, what has ended is not to stay in the system's list.
        threading.Thread(target=process.wait, daemon=True).start()
    finally:
        Path(file.name).unlink()
    if code is not None and (code or not jobs):
        typer.echo(log.read_text(encoding="utf-8", errors="replace")[-4000:], err=True, nl=False)
        typer.echo(f"error: {program.name} ended at once, with code {code}; its log is {log}", err=True)
        raise typer.Exit(code or 1)
    for job in jobs:
        typer.echo(f"Job {job.id} ({job.name}) was started in process {process.pid}.")
    if not jobs:
        typer.echo(f"Process {process.pid} was started, and has no job yet.")
    typer.echo(f"Its log is {log}")


def _await_job(process: subprocess.Popen[bytes], begun: int) -> tuple[int | None, tuple[DriverJob, ...]]:
    """Wait for the first job of a driver: (its exit code if it has ended, its jobs)."""
    deadline = time.monotonic() + _START_SECONDS
    jobs: tuple[DriverJob, ...] = ()
    while time.monotonic() < deadline:
        code = process.poll()
        mine = (driver for driver in drivers() if driver.pid == process.pid and driver.started >= begun)
        jobs = next((driver.jobs for driver in mine), ())
        if jobs or code is not None:
            return code, jobs
        time.sleep(0.05)
    return None, jobs
