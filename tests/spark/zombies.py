"""Drivers that are paused while another one takes their job over, and then continue."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.spark.processes import Ended, Family, fault, start, tail
from tests.waiting import eventually


class Zombie:
    """A program that was stopped at a point of the protocol."""

    def __init__(self, point: str, child: subprocess.Popen[bytes], log: Path) -> None:
        self.point = point
        self._child = child
        self._log = log
        self._family = Family(child.pid)

    def wait_until_stopped(self, seconds: float = 120.0) -> None:
        """It must come to its point."""
        process = psutil.Process(self._child.pid)

        def stopped() -> bool:
            assert self._child.poll() is None, f"it ended before it came to {self.point}: {tail(self._log)}"
            return process.status() == psutil.STATUS_STOPPED

        eventually(stopped, seconds, what=f"its coming to {self.point}", shown=lambda: tail(self._log))
        self._family.look()

    def resume(self) -> None:
        """Let it continue."""
        self._child.send_signal(signal.SIGCONT)

    def ended(self, seconds: float = 120.0) -> Ended:
        """How it ended, by itself, with all its processes."""
        self._child.wait(seconds)
        self._family.wait_until_gone(self._log)
        return Ended(self._child.returncode, self._log.read_text(errors="replace"))

    def kill(self) -> None:
        """End it, also if it is paused."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()


@contextmanager
def zombies(program: str, arguments: str, points: list[tuple[str, int]], folder: Path) -> Iterator[list[Zombie]]:
    """One driver after the other takes the same job over, and is stopped at its point after so many passes of it."""
    with ExitStack() as ending:
        stopped = []
        for number, (point, skip) in enumerate(points):
            log = folder / f"zombie-{number}.log"
            child = start(program, arguments, faults=[fault(point, action="stop", skip=skip)], log=log)
            zombie = Zombie(point, child, log)
            ending.callback(zombie.kill)
            zombie.wait_until_stopped()
            stopped.append(zombie)
        yield stopped
