"""Named points of the epoch protocol at which a test can inject a fault.

``reach("manifest.before")`` costs one global read if no plan is installed. A plan is installed by a test in the same
process (:func:`install`) or, for a child process, by the environment variable ``TIDEMILL_FAULTS``, which contains
JSON::

    [{"point": "manifest.before", "action": "kill", "skip": 2, "once": "/tmp/token"}]

``skip`` is the number of times that the point is passed first. ``once`` is a file that the process that fires the fault
creates exclusively. So the fault fires only once among several processes and their restarts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: All points that production code reaches, with the step of the protocol they represent.
POINTS: Final[dict[str, str]] = {
    "lineage.before": "before a driver claims the job by writing its takeover record",
    "lineage.after": "after the takeover record is durable",
    "offsets.logged": "the input of the epoch is chosen, nothing has run yet",
    "state.loaded": "a subtask has loaded its committed state",
    "task.batch": "a subtask has processed one batch of its input",
    "sink.precommit.before": "before a sink prepares its committables",
    "sink.precommit.after": "after a sink has prepared its committables",
    "delta.before": "before a subtask writes the delta of its epoch",
    "delta.after": "after the delta is written",
    "ack.before": "before a subtask sends its ack",
    "acks.collected": "the driver has all acks of the epoch, the manifest is not written",
    "manifest.before": "the driver is about to publish the manifest",
    "manifest.after": "the manifest is published: the epoch is committed",
    "sink.commit.before": "before the committables of a committed epoch are committed",
    "sink.commit.after": "after they are committed",
    "epoch.done": "the epoch is finished for Tidemill; Spark has not logged its commit",
    "snapshot.published": "the files of a background snapshot are written, no manifest refers to them yet",
    "retention.delete": "before unreferenced files are deleted",
}

#: Points of savepoints, which a job reaches only when it takes a savepoint or starts from one.
SAVEPOINT_POINTS: Final[dict[str, str]] = {
    "savepoint.begun": "the directory of a savepoint exists, nothing is copied yet",
    "savepoint.copied": "all files are copied, the metadata is not written",
    "savepoint.written": "the metadata is durable: the savepoint exists",
    "restore.copied": "a new job has the files of its savepoint, but no lineage",
}

#: Points of sources that have their own state, such as monitored files.
SOURCE_POINTS: Final[dict[str, str]] = {
    "files.begun": "the state that the epoch adds to its sources is durable, nothing has run yet",
}

#: Points of transactions of external systems, in sinks that deliver results after the manifest.
DELIVERY_POINTS: Final[dict[str, str]] = {
    "delivery.before": "the results of an epoch are not delivered yet, their transaction is about to begin",
    "delivery.written": "the results are written, their transaction is not committed",
    "delivery.after": "the transaction is committed, but this is not recorded elsewhere yet",
}


class InjectedFaultError(RuntimeError):
    """Raised at a point by a fault with the action ``raise``."""


class ProcessDeath(BaseException):
    """Simulates the death of a process in a test. It must not be caught or reported as an error of user code."""


@dataclass
class Fault:
    """One fault: what happens at which point, and after how many passes."""

    point: str
    action: str = "raise"  # raise | kill | kill_executor | stop | exit | hang | call
    skip: int = 0
    times: int = 1
    once: str | None = None
    call: Callable[[], None] | None = None
    hits: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        points = (*POINTS, *SAVEPOINT_POINTS, *SOURCE_POINTS, *DELIVERY_POINTS)
        if self.point not in points:
            known = ", ".join(points)
            raise ValueError(f"unknown fault point {self.point!r}; known points: {known}")

    def reach(self) -> None:
        self.hits += 1
        if self.hits <= self.skip or self.hits > self.skip + self.times:
            return
        if self.once is not None:
            try:
                Path(self.once).touch(exist_ok=False)
            except FileExistsError:
                return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal arrives before this ends
        elif self.action == "kill_executor":
            os.kill(executor_process(), signal.SIGKILL)
            time.sleep(60)  # Spark's worker daemon ends this process when its executor is gone
        elif self.action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)  # continues here after SIGCONT
        elif self.action == "exit":
            os._exit(17)
        elif self.action == "hang":
            time.sleep(600)
        elif self.action == "call" and self.call is not None:
            self.call()
        else:
            raise InjectedFaultError(f"injected fault at {self.point}")


def executor_process() -> int:
    """The process id of the executor that runs this Python worker, which is its nearest JVM ancestor."""
    pid = os.getppid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "java":
            return pid
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        pid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    raise InjectedFaultError("kill_executor works only in a Python worker of Spark, on Linux")


_plan: dict[str, list[Fault]] | None = None
_trace: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Pass a named point. Does nothing unless a plan or a trace is installed."""
    if _plan is None and _trace is None:
        return
    if _trace is not None:
        _trace(point)
    if _plan is not None:
        for fault in _plan.get(point, ()):
            fault.reach()


def install(faults: list[Fault]) -> None:
    """Install the faults of this process. They replace any earlier ones; an empty list removes all."""
    global _plan
    plan: dict[str, list[Fault]] = {}
    for fault in faults:
        plan.setdefault(fault.point, []).append(fault)
    _plan = plan or None


@contextlib.contextmanager
def injected(*faults: Fault) -> Iterator[None]:
    """Install faults for the duration of a ``with`` block."""
    install(list(faults))
    try:
        yield
    finally:
        install([])


@contextlib.contextmanager
def traced(on_point: Callable[[str], None]) -> Iterator[None]:
    """Call ``on_point`` with the name of every point passed inside the block (for coverage of points)."""
    global _trace
    _trace = on_point
    try:
        yield
    finally:
        _trace = None


def install_from_environment() -> None:
    """Install the plan of ``TIDEMILL_FAULTS`` if it is set. Drivers and workers call this once when they start."""
    text = os.environ.get("TIDEMILL_FAULTS")
    if text:
        install([Fault(**entry) for entry in json.loads(text)])
