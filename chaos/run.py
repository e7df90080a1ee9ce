"""A run: a sequence of drivers, faults drawn from a seed, and a verdict."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.control import Control
from chaos.disk import damage_garbage, filled, small_disk
from chaos.drivers import Driver
from chaos.job import JOB_ID
from chaos.variant import StateVariant, Variant
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import ExitCode
from tidemill.errors import CheckpointError

#: Records that arrive per second.
_RATE: Final = 150
#: The most records that the input may be ahead of the committed position, so that a run on a slow machine can finish.
_AHEAD: Final = 800
#: The longest wait, in seconds, for an epoch between two faults.
_PATIENCE: Final = 30.0
#: The job must finish within this time, in seconds, after the last fault.
_LAST_WAIT: Final = 180.0


@dataclass(frozen=True)
class Plan:
    """How long to inject faults drawn from the seed, or the exact sequence of faults."""

    seed: int
    minutes: float
    folder: Path
    faults: tuple[str, ...] = ()
    variant: type[Variant] = StateVariant


@dataclass
class Verdict:
    """The result of a run."""

    faults: Counter[str]
    problems: list[str]
    records: int
    epochs: int
    starts: int
    seconds: float

    @property
    def good(self) -> bool:
        return not self.problems


class Run:
    """Runs the job in a folder, and injects faults."""

    def __init__(self, plan: Plan, report: Callable[[str], None]) -> None:
        # configuration
        self._plan = plan
        self._variant = plan.variant(plan.folder)
        self._dice = random.Random(plan.seed)
        self._report = report
        self._checkpoints = plan.folder / "checkpoints"
        self._log = ManifestLog(LocalStorage(self._checkpoints / JOB_ID, durable=False), JOB_ID)
        # transient
        self._control = Control(plan.folder / "control")
        self._started = time.monotonic()
        self._drivers: list[Driver] = []
        #: The lineage of the job when its latest driver was started.
        self._found: str | None = None
        self._faults: Counter[str] = Counter()
        self._problems: list[str] = []
        self._wishes = 0
        self._epoch = 0
        self._read = 0
        self._records = 0

    def run(self) -> Verdict:
        """Run to the end, regardless of failures. Afterwards none of its processes is running."""
        with small_disk(self._checkpoints) as mounted, self._variant.running(), contextlib.ExitStack() as ending:
            ending.callback(self._end_all)
            self._start()
            self._wait_for_epoch(_LAST_WAIT)
            for kind in self._drawn(disk=mounted):
                own = getattr(self, f"_{kind}", None)
                done = self._variant.own_fault(kind, self._dice) if own is None else own()
                if done is not None:
                    self._faults[kind.replace("_", " ")] += 1
                    self._say(f"fault {self._faults.total()}: {done}")
                self._wait_for_epoch(_PATIENCE)
                self._pass_time(self._dice.random() * 2)
            records = self._finish()
            self._problems += self._variant.differences(records)
            return Verdict(
                self._faults,
                self._problems,
                records,
                self._epoch,
                len(self._drivers),
                time.monotonic() - self._started,
            )

    # -- faults: each returns a description of what it did, or None if it was not possible --------------------------

    def _drawn(self, *, disk: bool) -> Iterator[str]:
        if self._plan.faults:
            yield from self._plan.faults
            return
        kinds = [
            kind for kind, often in self._variant.faults.items() for _ in range(often) if disk or kind != "fill_disk"
        ]
        while time.monotonic() - self._started < 60 * self._plan.minutes:
            yield self._dice.choice(kinds)

    def _kill_worker(self) -> str | None:
        workers = self._driver.workers()
        if not workers:
            return None
        worker = self._dice.choice(workers)
        with contextlib.suppress(Exception):
            worker.kill()
        return f"killed Python worker {worker.pid}"

    def _kill_executor(self) -> str | None:
        executors = self._driver.executors()
        if not executors:
            return None
        executor = self._dice.choice(executors)
        with contextlib.suppress(Exception):
            executor.kill()
        return f"killed executor {executor.pid}"

    def _kill_driver(self) -> str:
        killed = self._driver
        killed.kill()
        self._start()
        return f"killed driver {killed.number}"

    def _stop_driver(self) -> str | None:
        """Pause the driver while another one takes over the job. When it resumes, it must detect this and end.

        A driver that has not claimed the job yet would claim it when it resumes, and rightly so.
        """
        if not self._wait_for_claim():
            return None
        zombie = self._driver
        zombie.stop()
        self._start()
        if not self._wait_for_claim():
            self._problems.append(f"driver {self._driver.number} did not claim the job: {self._driver.tail()}")
        self._wait_for_epoch(_LAST_WAIT)
        zombie.resume()
        deadline = time.monotonic() + _LAST_WAIT
        while zombie.ended is None and time.monotonic() < deadline:
            self._pass_time(0.2)  # it detects this when it receives input
        code = zombie.ended
        if code != ExitCode.FENCED:
            self._problems.append(f"driver {zombie.number} was replaced, and ended with {code}: {zombie.tail()}")
        zombie.end()
        return f"paused driver {zombie.number}, which then ended with {code}"

    def _damage_garbage(self) -> str | None:
        return damage_garbage(self._checkpoints / JOB_ID, JOB_ID, self._dice)

    def _fill_disk(self) -> str:
        seconds = 3 + 3 * self._dice.random()
        with filled(self._checkpoints):
            self._pass_time(seconds)
        return f"the disk was full for {seconds:.1f} s"

    def _slow_storage(self) -> str:
        seconds = 2 + 3 * self._dice.random()
        self._control.slow_down(slow=True)
        self._pass_time(seconds)
        self._control.slow_down(slow=False)
        return f"storage was slow for {seconds:.1f} s"

    def _rescale(self) -> str:
        self._wishes += 1
        parallelism = self._dice.randint(1, 4)
        self._control.ask_for(self._wishes, parallelism)
        return f"requested parallelism {parallelism}"

    # -- the job ------------------------------------------------------------------------------------------------------

    @property
    def _driver(self) -> Driver:
        return self._drivers[-1]

    def _start(self) -> None:
        number = len(self._drivers) + 1
        self._found = self._lineage()
        self._drivers.append(Driver(self._variant.module, self._plan.folder, self._control, number))

    def _pass_time(self, seconds: float) -> None:
        """Let time pass: provide input, and restart a driver that has ended by itself."""
        until = time.monotonic() + seconds
        while True:
            self._control.allow(self._arrived())
            if self._driver.ended is not None:
                code = self._driver.ended
                self._say(f"driver {self._driver.number} ended with {code}, and is restarted")
                if code != ExitCode.FAILED:
                    self._problems.append(f"driver {self._driver.number} ended with {code}: {self._driver.tail()}")
                self._start()
            if time.monotonic() >= until:
                return
            time.sleep(0.2)

    def _arrived(self) -> int:
        """The number of records so far: a fixed rate, limited by the position of the job."""
        by_now = int(_RATE * (time.monotonic() - self._started)) + 200
        self._records = max(self._records, min(by_now, self._read + _AHEAD))
        return self._records

    def _wait_for_epoch(self, seconds: float) -> None:
        """Wait until the job has committed another epoch."""
        before, deadline = self._committed(), time.monotonic() + seconds
        while self._committed() == before and time.monotonic() < deadline:
            self._pass_time(0.2)

    def _wait_for_claim(self) -> bool:
        """Wait until the driver has claimed the job, and return whether it has."""
        deadline = time.monotonic() + _LAST_WAIT
        while self._lineage() == self._found and time.monotonic() < deadline:
            self._pass_time(0.2)
        return self._lineage() != self._found

    def _lineage(self) -> str | None:
        """The current lineage of the job, or the one that the latest driver found if it cannot be read now."""
        with contextlib.suppress(CheckpointError):
            head = self._log.read_head()
            return None if head is None else head.lineage
        return self._found

    def _committed(self) -> int:
        with contextlib.suppress(CheckpointError):
            head = self._log.read_head()
            if head is not None:
                if head.epoch < self._epoch:
                    self._problems.append(f"epoch {self._epoch} was committed, but the last epoch is now {head.epoch}")
                self._epoch, self._read = head.epoch, self._variant.position(head.sources)
        return self._epoch

    def _finish(self) -> int:
        """Stop faults and input, and wait until the job finishes successfully. Returns the number of records."""
        records = self._arrived()
        self._control.allow(records, final=True)
        self._say(f"no more faults: waiting for the job to process all {records} records")
        for _ in range(3):
            code = self._driver.wait(_LAST_WAIT)
            if code == ExitCode.FINISHED:
                self._committed()
                return records
            if code is None:
                break
            self._start()
        self._problems.append(f"the job did not end: {self._driver.tail()}")
        return records

    def _end_all(self) -> None:
        for driver in self._drivers:
            driver.end()

    def _say(self, text: str) -> None:
        self._report(f"{time.monotonic() - self._started:7.1f} s  epoch {self._epoch:5}  {text}")


def lines_of(verdict: Verdict, plan: Plan) -> Iterator[str]:
    """Format the verdict as lines of text."""
    yield (
        f"seed {plan.seed}: {verdict.seconds:.0f} s, {verdict.records} records, {verdict.epochs} epochs, "
        f"{verdict.starts} drivers, {verdict.faults.total()} faults"
    )
    for kind, count in sorted(verdict.faults.items()):
        yield f"  {count:4} x {kind}"
    for problem in verdict.problems:
        yield f"WRONG: {problem}"
    yield "output and state equal the truth" if verdict.good else f"{len(verdict.problems)} things are wrong"
