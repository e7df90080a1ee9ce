"""An engine that simulates Spark's behavior under failures.

A failed task is attempted up to four times in total. A slow task may have a twin (a speculative copy), and either of
them may win. The output of a finished task may be lost while its readers run. A new attempt then computes it again, and
later readers get the new output. Parcels arrive in any order and are sorted only by key.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tidemill.errors import JobExecutionError
from tidemill.faults import ProcessDeath
from tidemill.local.engine import LocalEngine, Placement
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.task import execute_subtask
from tidemill.runtime.task.warm import WarmChains
from tidemill.testing.simulation.trouble import TASK, PlannedFault

#: Like ``spark.task.maxFailures``.
MOST_FAILURES = 4

Task = tuple[int, int]  # level, partition
Parcels = list[tuple[int, bytes]]


class WorkerKilledError(ProcessDeath):
    """Simulates the death of a worker process, with everything in its memory."""


class SimulatedCluster(LocalEngine):
    """Workers with warm chains, and the shuffle files of the current epoch."""

    def __init__(
        self,
        bundle: JobBundle,
        placement: Placement,
        workers: list[WarmChains],
        meet: Callable[[str], PlannedFault | None],
        tell: Callable[[str], None],
        enter: Callable[[int | None], int | None],
        lose: Callable[[str, int], None],
        dice: random.Random,
        *,
        budget: int,
        drops: bool,
    ) -> None:
        """``enter`` is called with the worker that runs next, and returns the previous one. ``lose`` is called with the
        program start and the worker that is lost. ``budget`` is the memory budget of a worker's warm chains. For
        ``drops``, see :meth:`close`."""
        super().__init__(bundle, len(workers), placement)
        # configuration
        self._meet = meet
        self._tell = tell
        self._enter = enter
        self._lose_disk = lose
        self._dice = dice
        self._budget = budget
        self._drops = drops
        # transient
        self._workers = workers
        self._files: dict[Task, Parcels] = {}
        self._made_by: dict[Task, int] = {}
        self._doomed: list[tuple[Task, int, bool]] = []

    def kill_worker(self, worker: int, *, flushed: bool = True) -> None:
        self._lose_disk(self._bundle.settings.program, worker)
        self._workers[worker] = WarmChains(self._budget)

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        self._context, self._inputs = context, inputs
        self._layout = Layout(self._bundle.plan, context.parallelism)
        self._files, self._made_by, self._doomed = {}, {}, []
        last = self._layout.depth - 1
        for level in range(last + 1):
            partitions = list(range(self._layout.width(level)))
            self._dice.shuffle(partitions)
            for done, partition in enumerate(partitions):
                self._lose(level - 1, done)
                self._run_task((level, partition))
        return [parcel for partition in range(self._layout.width(last)) for _, parcel in self._files[last, partition]]

    def close(self) -> None:
        """Close the warm chains. Without ``drops``, workers are unreachable, and the next lineage finds the chains."""
        if self._drops:
            super().close()

    def _run_task(self, task: Task) -> None:
        trouble = self._meet(TASK)
        self._made_by[task], self._files[task] = self._try_until_done(task, 0)
        if trouble is None:
            return
        if trouble.what.startswith("twin"):
            maker, parcels = self._try_until_done(task, 1)
            self._tell(f"  task {task} has a twin; the {trouble.what}")
            if trouble.what == "twin wins":
                self._made_by[task], self._files[task] = maker, parcels
        elif task[0] + 1 < self._layout.depth:
            some = 1 + trouble.choice % max(1, self._layout.width(task[0] + 1) - 1)
            readers = 0 if trouble.choice % 7 == 0 else some
            self._doomed.append((task, readers, trouble.what == "executor lost"))

    def _lose(self, level: int, readers: int) -> None:
        """Lose the output that is planned to be lost after this number of readers of a level have run."""
        for entry in [entry for entry in self._doomed if entry[0][0] == level and entry[1] == readers]:
            self._doomed.remove(entry)
            lost = [entry[0]]
            if entry[2]:
                worker = self._made_by[entry[0]]
                self.kill_worker(worker)
                lost = [task for task, by in self._made_by.items() if by == worker and task[0] <= level]
            for task in lost:
                self._files.pop(task, None)
            self._tell(f"  the output of tasks {sorted(lost)} was lost after {readers} readers")

    def _try_until_done(self, task: Task, move: int) -> tuple[int, Parcels]:
        level, partition = task
        reason: BaseException | None = None
        for failures in range(MOST_FAILURES):
            worker = (self._placement(self._context.epoch, level, partition) + move + failures) % len(self._workers)
            try:
                return worker, self._attempt(task, worker)
            except (WorkerKilledError, Exception) as error:
                # An exception also ends a Python worker of Spark.
                self._tell(f"  task {task} failed on worker {worker}: {type(error).__name__} {error}")
                self.kill_worker(worker)
                reason = error
        raise JobExecutionError(f"task {task} failed {MOST_FAILURES} times; last: {reason}")

    def _attempt(self, task: Task, worker: int) -> Parcels:
        parcels = self._input_of(task)
        before = self._enter(worker)
        try:
            return list(execute_subtask(self._bundle, self._context, *task, self._workers[worker], iter(parcels)))
        finally:
            self._enter(before)

    def _input_of(self, task: Task) -> list[bytes]:
        level, partition = task
        if level == 0:
            chain, subtask = self._layout.subtask(0, partition)
            return self._inputs.splits.get(chain, [])[subtask : subtask + 1]
        found: Parcels = []
        for sender in range(self._layout.width(level - 1)):
            source = (level - 1, sender)
            if source not in self._files:
                self._made_by[source], self._files[source] = self._try_until_done(source, 0)
            found += [(key, parcel) for key, parcel in self._files[source] if key & 0xFFFFFFFF == partition]
        self._dice.shuffle(found)
        return [parcel for _, parcel in sorted(found, key=lambda item: item[0])]
