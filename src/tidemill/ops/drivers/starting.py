"""Starts a program in a separate process, which outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from tidemill.common.configuration import Configuration
from tidemill.ops.drivers.program import Program
from tidemill.ops.drivers.records import Driver, DriverJob, drivers, new_log
from tidemill.python_versions import SAFELY
from tidemill.runtime.observe.driver_log import LOG_VARIABLE

__all__ = ["Started", "start_detached"]

#: How long to wait until a program has a job. Spark alone takes ten seconds or more to start.
_START_SECONDS: Final = 120.0
#: How long to wait for a program to end after SIGTERM.
_END_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Started:
    """A program in a separate process: ``code`` is set if it has ended, ``driver`` if it has a job."""

    pid: int
    log: Path
    code: int | None
    driver: Driver | None

    @property
    def jobs(self) -> tuple[DriverJob, ...]:
        """The jobs that the program has started so far."""
        return () if self.driver is None else self.driver.jobs

    @property
    def has_failed(self) -> bool:
        """Whether the program ended with an error, or without a job."""
        return self.code is not None and (self.code != 0 or not self.jobs)


def start_detached(
    program: Program, settings: Configuration, variables: Mapping[str, str] = MappingProxyType({})
) -> Started:
    """Start the program in a separate session, and wait until it has a job or has ended, for at most two minutes.

    ``variables`` are added to the environment of this process. If the wait is interrupted, the program is terminated.
    """
    log, file = new_log(program.name, yaml.safe_dump(settings.to_dict(), allow_unicode=True))
    # Without this option, Python would import files of the working directory instead of the packages of that name.
    command = [
        sys.executable,
        *SAFELY,
        "-m",
        "tidemill",
        "run",
        "--config",
        str(file),
        program.name,
        *program.arguments,
    ]
    begun = time.time_ns() // 1_000_000
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - this program itself
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables, LOG_VARIABLE: str(log)},
                start_new_session=True,
            )
        try:
            code, driver = _await_job(process, begun)
        except BaseException:
            _end(process)
            raise
        # Reap the process when it ends, so that it does not remain as a zombie while this process runs.
        threading.Thread(target=process.wait, daemon=True).start()
    finally:
        file.unlink()
    return Started(process.pid, log, code, driver)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a program and all processes that it has started."""
    for kind, seconds in ((signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return


def _await_job(process: subprocess.Popen[bytes], begun: int) -> tuple[int | None, Driver | None]:
    """Wait for the first job of a driver. Returns its exit code if it has ended, and the driver if it has a job."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        code = process.poll()
        mine = (one for one in drivers() if one.pid == process.pid and one.started >= begun and one.jobs)
        driver = next(mine, None)
        if driver is not None or code is not None:
            return code, driver
        time.sleep(0.05)
    return None, None
