"""Finds and kills the Python worker processes of a Spark job on this machine."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import psutil

from tidemill.spark.jobs.stages import LANE_VARIABLE


@dataclass(frozen=True)
class Worker:
    """A worker process. Its ``lane`` determines which of the job's subtasks, and thus which state, it contains."""

    lane: int
    process: psutil.Process

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid


def workers_of_this_process() -> dict[int, Worker]:
    """The worker of each lane. Of several, the one with the most CPU time, because it has the state."""
    found: dict[int, tuple[float, Worker]] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # the process may end in the meantime
            lane = process.environ().get(LANE_VARIABLE, "")
            parent = process.parent()
            # Numbered lanes contain subtasks; others, such as those for background work, have no state. Workers are
            # forked from a daemon, which has the same environment but a JVM as its parent.
            if not lane.isdigit() or parent is None or LANE_VARIABLE not in parent.environ():
                continue
            work = process.cpu_times().user
            if work >= found.get(int(lane), (0.0, None))[0]:
                found[int(lane)] = (work, Worker(int(lane), process))
    return {lane: worker for lane, (_, worker) in sorted(found.items())}


def kill_when_busy(workers: list[Worker], patience: float = 5.0) -> Worker | None:
    """Send SIGKILL to the first worker that is seen running, so that its current epoch is lost.

    Returns None if all workers have ended by themselves.
    """
    deadline = time.monotonic() + patience
    alive = list(workers)
    while alive:
        for worker in list(alive):
            try:
                if worker.process.status() == psutil.STATUS_RUNNING or time.monotonic() > deadline:
                    worker.process.kill()
                    return worker
            except psutil.NoSuchProcess:
                alive.remove(worker)
        time.sleep(0.001)
    return None
