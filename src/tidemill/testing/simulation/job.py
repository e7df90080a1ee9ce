"""A simulated job with all its drivers: the running one, paused ones, and those that wrongly believe they own the job.

One driver runs at a time. While a driver is paused, another one takes over the job. The paused driver resumes after the
other one has run some epochs, or in the middle of one. Both have their own threads, which take turns and never run at
the same time: only the plan determines the order of events.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from tidemill.checkpoint.names import SINKS
from tidemill.errors import CheckpointOwnershipError, CorruptFileError, FencedError, TidemillError
from tidemill.testing.simulation.checks import check_swept
from tidemill.testing.simulation.driver import RestartError, Settings, SimulatedDriver
from tidemill.testing.simulation.programs import Input
from tidemill.testing.simulation.world import KilledError, World


class _Turn:
    """Work in a separate thread, which never runs at the same time as the thread that waits for it."""

    def __init__(self, work: Callable[[], None], steps: int) -> None:
        """After ``steps`` calls of :meth:`step`, the work is paused once."""
        self._work = work
        self._left = steps
        self._mine = threading.Semaphore(0)
        self._theirs = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, name="simulated-driver", daemon=True)
        self.done = False

    def go_on(self) -> None:
        """Let the work run until it is paused or done."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._mine.release()
        self._theirs.acquire()
        if self.done:
            self._thread.join()

    def step(self) -> bool:
        """Called by any thread at each step: pause if this is the work's own thread and the time has come.

        Returns whether it was paused.
        """
        if self._left <= 0 or threading.current_thread() is not self._thread:
            return False
        self._left -= 1
        if self._left:
            return False
        self._theirs.release()
        self._mine.acquire()
        return True

    def _main(self) -> None:
        try:
            self._work()
        finally:
            self.done = True
            self._theirs.release()


class SimulatedJob:
    """Runs a job to its end, regardless of what happens to its drivers."""

    def __init__(self, world: World, shape: str, inputs: dict[str, Input], settings: Settings, faults: int) -> None:
        # configuration
        self._world = world
        self._shape = shape
        self._inputs = inputs
        self._settings = settings
        # transient
        self._parallelism = settings.parallelism
        self._waiting: list[SimulatedDriver] = []
        self._turns: list[_Turn] = []
        self._in_the_middle: list[_Turn] = []
        self._kept: SimulatedDriver | None = None
        self._last: SimulatedDriver | None = None
        # Each fault ends at most the driver it hits and the drivers that were paused; two more are for the sweep.
        self._starts_left = 4 + 3 * faults
        self.sinks: tuple[str, ...] = ()
        world.on_pause = self._give_way
        world.on_step = self._step

    def finish(self) -> None:
        """Run the job to its end. Every driver that is still waiting then runs, and finds that the job has ended."""
        self._last = self._run(None)
        while self._waiting:
            zombie = self._waiting.pop()
            if zombie is not self._last:
                with contextlib.suppress(TidemillError, KilledError):
                    zombie.run()
                self._last = self._run(None)

    def sweep(self) -> Iterator[str]:
        """Delete unneeded files, first with the last driver and then with a new one; returns what is left over."""
        self._world.troubles.pending.clear()
        head = self._world.disk.head
        for driver in (self._last, self._start()):
            if driver is None or (driver is self._last and head and head.lineage != driver.coordinator.lineage):
                continue
            driver.run()
            snapshots = driver.coordinator.snapshots
            if snapshots is None:
                raise AssertionError("a job merges its runs")
            done = snapshots._done
            if snapshots._cleaner is not None:
                snapshots._cleaner.collect()
            yield from check_swept(self._world.disk, () if done is None else (done[1].snapshot or "",))
        if left := [*self._world.output.left(), *self._world.disk.list(SINKS)]:
            yield f"output was left over: {left}"

    def _run(self, epochs: int | None) -> SimulatedDriver:
        """Run drivers one after the other until one of them reaches the end, or has run ``epochs`` epochs."""
        while True:
            driver = self._waiting.pop() if self._waiting else self._start()
            try:
                driver.run(epochs)
            except KilledError:
                self._world.tell("the driver was killed")
            except FencedError as error:
                self._check_fenced(driver)
                self._world.tell(f"the driver was fenced: {error}")
                self._close(driver)
            except RestartError as error:
                self._parallelism = error.parallelism
                self._world.tell(f"the job is restarted {error}")
            except (CheckpointOwnershipError, CorruptFileError):
                raise
            except TidemillError as error:
                self._world.tell(f"the driver failed: {type(error).__name__}: {error}")
                self._kept = self._close(driver)
            else:
                self._let_others_end()
                return driver
            self._let_others_end()

    def _start(self) -> SimulatedDriver:
        self._starts_left -= 1
        if self._starts_left < 0:
            raise AssertionError("the job was started more often than its faults explain")
        kept, self._kept = self._kept, None
        driver = SimulatedDriver(self._world, self._shape, self._inputs, self._settings, self._parallelism, kept)
        self.sinks = driver.sinks
        return driver

    def _close(self, driver: SimulatedDriver) -> SimulatedDriver | None:
        """Close a driver. Returns it for a new execution in the same process, or None if it was killed."""
        try:
            driver.coordinator.close()
        except KilledError:
            self._world.tell("the driver was killed while it was closed")
            return None
        return driver

    def _give_way(self, choice: int) -> None:
        """Pause a driver: another one takes over and runs up to three epochs, or up to the middle of one."""
        self._world.tell("  a driver is paused; another one takes over")
        waiting, self._waiting = self._waiting, []

        def work() -> None:
            try:
                survivor = self._run(choice // 2 % 4)
                self._waiting.append(survivor)
            except Exception as error:
                self._world.violations.append(f"a driver ended with {type(error).__name__}: {error}")

        # An epoch has some dozens of steps.
        turn = _Turn(work, steps=choice // 2 if choice % 2 else 0)
        self._turns.append(turn)
        turn.go_on()
        if not turn.done:
            self._world.tell("  the other driver is paused now")
            self._in_the_middle.append(turn)
        self._waiting = [*waiting, *self._waiting]

    def _step(self) -> None:
        worker = self._world.enter(None)
        for turn in self._turns:
            if turn.step():
                self._world.tell("  the other driver resumes")
        self._world.enter(worker)

    def _let_others_end(self) -> None:
        """Resume the drivers that were paused in the middle of an epoch, after the driver above them has ended."""
        while self._in_the_middle:
            self._in_the_middle.pop().go_on()

    def _check_fenced(self, driver: SimulatedDriver) -> None:
        lineage, head = driver.coordinator.lineage, self._world.disk.head
        if lineage and head is not None and head.lineage == lineage:
            self._world.violations.append(f"lineage {lineage} was fenced, but no other lineage took over")
