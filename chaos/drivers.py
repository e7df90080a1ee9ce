"""The driver processes of a run: starts, kills, pauses and inspects them and their descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from chaos.control import VARIABLE, Control

_ROOT = Path(__file__).parents[1]


class Driver:
    """A process that runs the job's module."""

    def __init__(self, module: str, folder: Path, control: Control, number: int) -> None:
        self.number = number
        self.log = folder / f"driver-{number}.log"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            VARIABLE: str(control.folder),
        }
        with self.log.open("wb") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", module, str(folder)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._process = psutil.Process(self._child.pid)
        self._family: set[psutil.Process] = set()

    @property
    def ended(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._child.poll()

    def kill(self) -> None:
        """Kill the driver immediately. Its child processes have to detect this themselves."""
        self.family()
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        """Pause the driver."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the driver."""
        self._child.send_signal(signal.SIGCONT)

    def wait(self, seconds: float) -> int | None:
        """Wait for the driver to end. Returns its exit code, or None after the timeout."""
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def family(self) -> list[psutil.Process]:
        """All living descendants, including those of a driver that has ended."""
        for process in [self._process, *self._family]:
            try:
                self._family.update(process.children(recursive=True))
            except psutil.Error:
                continue
        return [process for process in self._family if _lives(process)]

    def executors(self) -> list[psutil.Process]:
        """The executor processes."""
        return [process for process in self.family() if _does(process, "CoarseGrainedExecutorBackend")]

    def workers(self) -> list[psutil.Process]:
        """The Python workers, which Spark's daemons have forked."""
        daemons = [process for process in self.family() if _does(process, "daemon")]
        ids = {process.pid for process in daemons}
        return [process for process in daemons if _parent(process) in ids]

    def end(self) -> None:
        """End the driver and all its descendants."""
        family = self.family()
        if self.ended is None:
            self.resume()
            self.kill()
        deadline = time.monotonic() + 10
        while family and time.monotonic() < deadline:
            time.sleep(0.2)
            family = self.family()
        for process in family:
            with _gone():
                process.kill()

    def tail(self, size: int = 3000) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-size:]


class _gone:  # noqa: N801 - a context manager
    """Suppresses errors about a process that has already ended."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, psutil.Error)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _does(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except psutil.Error:
        return False


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0
