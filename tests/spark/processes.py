"""Child processes of tests: programs that are run, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import eventually

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class Ended:
    """How a program ended; ``text`` is everything it said."""

    code: int
    text: str

    @property
    def killed(self) -> bool:
        return self.code == KILLED


def child_environment() -> dict[str, str]:
    """The environment of programs that import Tidemill, and these tests, from wherever they run."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("TIDEMILL_FAULTS", None)
    return environment


def start(program: str, *arguments: str, faults: Sequence[dict[str, Any]] = (), log: Path) -> subprocess.Popen[bytes]:
    """Start a program of ``programs/`` with a fault plan; what it says goes to ``log``."""
    environment = child_environment()
    if faults:
        environment["TIDEMILL_FAULTS"] = json.dumps(list(faults))
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def run(
    program: str, *arguments: str, faults: Sequence[dict[str, Any]] = (), log: Path, seconds: float = 240.0
) -> Ended:
    """Run a program to its end, whatever that is, and wait until all of its processes are gone."""
    child = start(program, *arguments, faults=faults, log=log)
    family = Family(child.pid)

    def ended() -> bool:
        family.look()
        return child.poll() is not None

    try:
        eventually(ended, seconds, what=f"the end of {program}", shown=lambda: tail(log))
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
    family.wait_until_gone(log)
    return Ended(child.returncode, log.read_text(errors="replace"))


class Family:
    """A process and all that was ever seen to descend from it: children of killed ones would be lost otherwise."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen: set[psutil.Process] = set()

    def look(self) -> set[psutil.Process]:
        """Note who lives now; returns all who were seen and live."""
        for process in [self._root, *self._seen]:
            try:
                self._seen.update(process.children(recursive=True))
            except psutil.NoSuchProcess:
                continue
        return {process for process in self._seen if alive(process)}

    def wait_until_gone(self, log: Path, seconds: float = 60.0) -> None:
        """Wait until all descendants have ended by themselves; what has not is an orphan, and a failure."""

        def left() -> str:
            return f"{[described(process) for process in self.look()]}: {tail(log)}"

        try:
            eventually(lambda: not self.look(), seconds, what="the end of all that the program started", shown=left)
        finally:
            for process in self.look():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def described(process: psutil.Process) -> str:
    """Which process it is, if it is still there."""
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:100]}"
    except psutil.NoSuchProcess:
        return f"{process.pid}, which has ended now"


def alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tail(log: Path, size: int = 4000) -> str:
    """The end of a log."""
    return log.read_text(errors="replace")[-size:]


def fault(point: str, token: Path | None = None, action: str = "kill", skip: int = 0) -> dict[str, Any]:
    """One fault of a plan; with a token it happens once, in whatever process comes first."""
    entry: dict[str, Any] = {"point": point, "action": action, "skip": skip}
    if token is not None:
        entry["once"] = str(token)
    return entry
