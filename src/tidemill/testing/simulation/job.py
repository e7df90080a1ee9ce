"""A simulated job with all its drivers: the one that runs, those that stand still, those that think they still own it.

One driver runs at a time. One that stands still gives way to another, which takes the job over; it goes on after the
other one has run some epochs, or in the middle of one. For that the two have threads of their own, which take turns and
never run together: the order of events is the plan's alone.
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
    """A piece of work in a thread of its own; it and the one that waits for it never run together."""

    def __init__(self, work: Callable[[], None], steps: int) -> None:
        """After ``steps`` calls of :meth:`step` it gives way once."""
        self._work = work
        self._left = steps
        self._mine = threading.Semaphore(0)
        self._theirs = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, name="simulated-driver", daemon=True)
        self.done = False

    def go_on(self) -> None:
        """Let it run until it gives way or is done."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._mine.release()
        self._theirs.acquire()
        if self.done:
            self._thread.join()

    def step(self) -> bool:
        """Called from anywhere at each step; gives way if it is this one's turn, and time. Whether it did."""
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
    """Runs a job to its end, whatever happens to its drivers."""

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
        # Each fault ends at most the driver it hits and those that had to give way; two more are for the sweep.
        self._starts_left = 4 + 3 * faults
        self.sinks: tuple[str, ...] = ()
        world.on_pause = self._give_way
        world.on_step = self._step

    def finish(self) -> None:
        """Run the job to its end; every driver that still waits finds out that it is over."""
        self._last = self._run(None)
        while self._waiting:
            zombie = self._waiting.pop()
            if zombie is not self._last:
                with contextlib.suppress(TidemillError, KilledError):
                    zombie.run()
                self._last = self._run(None)

    def sweep(self) -> Iterator[str]:
        """Delete what is not needed, as the last driver and then as one that comes after it; what is left over."""
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
        """Run drivers one after the other until one of them comes to the end, or has run so many epochs."""
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
                self._world.tell(f"the job is started again {error}")
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
        """Put a driver away; what a new execution in its process can go on with."""
        try:
            driver.coordinator.close()
        except KilledError:
            self._world.tell("the driver was killed while it was put away")
            return None
        return driver

    def _give_way(self, choice: int) -> None:
        """A driver stands still: another one takes over and runs up to three epochs, or up to the middle of one."""
        self._world.tell("  a driver stands still; another one takes over")
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
            self._world.tell("  the other one stands still now")
            self._in_the_middle.append(turn)
        self._waiting = [*waiting, *self._waiting]

    def _step(self) -> None:
        worker = self._world.enter(None)
        for turn in self._turns:
            if turn.step():
                self._world.tell("  the other one goes on")
        self._world.enter(worker)

    def _let_others_end(self) -> None:
        """Those that stand still in the middle of something go on, now that the driver above them has ended."""
        while self._in_the_middle:
            self._in_the_middle.pop().go_on()

    def _check_fenced(self, driver: SimulatedDriver) -> None:
        lineage, head = driver.coordinator.lineage, self._world.disk.head
        if lineage and head is not None and head.lineage == lineage:
            self._world.violations.append(f"lineage {lineage} was fenced, but nobody took over from it")
