"""The Python worker processes of a job that runs on Spark on this machine: to look at, and to kill."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import psutil

from tidemill.spark.jobs.stages import LANE_VARIABLE


@dataclass(frozen=True)
class Worker:
    """A worker process; ``lane`` is the share of the job's subtasks, and so of its state, that it holds."""

    lane: int
    process: psutil.Process

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid


def workers_of_this_process() -> dict[int, Worker]:
    """The worker of each lane: of several, the one that has done the most work, as it is the one with the state."""
    found: dict[int, tuple[float, Worker]] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it may end while we look at it
            lane = process.environ().get(LANE_VARIABLE, "")
            parent = process.parent()
            # Lanes with a number hold subtasks; others, such as those of background work, have no state. Workers are
            # forked off a daemon, which has the same environment but a JVM as its parent.
            if not lane.isdigit() or parent is None or LANE_VARIABLE not in parent.environ():
                continue
            work = process.cpu_times().user
            if work >= found.get(int(lane), (0.0, None))[0]:
                found[int(lane)] = (work, Worker(int(lane), process))
    return {lane: worker for lane, (_, worker) in sorted(found.items())}


def kill_when_busy(workers: list[Worker], patience: float = 5.0) -> Worker:
    """Send SIGKILL to the first of these workers that is seen at work, so that an epoch is lost with it."""
    deadline = time.monotonic() + patience
    while True:
        for worker in workers:
            if worker.process.status() == psutil.STATUS_RUNNING or time.monotonic() > deadline:
                worker.process.kill()
                return worker
        time.sleep(0.001)
