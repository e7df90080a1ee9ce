"""A driver of a schedule: the production coordinator, log, snapshots and retention, over tasks that compute nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.protocol_storage import SharedStorage
from tests.simulation.protocol_tasks import GROUPS, JOB, KEYED, SOURCE, Tasks, piece_of, two_chains
from tests.simulation.protocol_world import Process, World
from tidemill.checkpoint.model import Manifest, Piece
from tidemill.checkpoint.names import snapshot_file_name
from tidemill.checkpoint.protocol import should_skip
from tidemill.connectors.sinks import Committed, Committer
from tidemill.errors import CheckpointOwnershipError, CorruptFileError, FencedError, TidemillError
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.driver.snapshots import Snapshots
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.merge_task import Slice

_MOST_RESTARTS = 3


class _Output(Committer):
    """Commits into the world's output, a step at a time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in committed:
            effect = functools.partial(self._world.output.commit, KEYED, part)
            fault = self._world.step("commit")
            if fault is None:
                effect()
            elif fault.startswith("late"):
                self._world.late("commit", effect, fault)
            else:
                effect()
                if fault == "twice":
                    self._world.late("commit", effect, fault)
                self._world.after(fault)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        fault = self._world.step("discard")
        self._world.output.discard(KEYED, names_in_use, lineage)
        if fault is not None:
            self._world.after(fault)


class _Future:
    """Background work that runs as a thread of its process."""

    def __init__(self) -> None:
        self._done = False

    def done(self) -> bool:
        return self._done

    def finish(self) -> None:
        self._done = True


class _Background:
    """Runs what is submitted beside its process, in turns with it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._futures: list[_Future] = []

    def submit(self, work: Callable[..., None], *args: Any, **options: Any) -> _Future:
        future = _Future()

        def main() -> None:
            try:
                work(*args, **options)
            finally:
                future.finish()

        self._futures.append(future)
        self._world.spawn(self._process, "background", main)
        return future

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        while not all(future.done() for future in self._futures):
            self._world.wait()


class Driver:
    """Runs the job in a process, starting it again after failures, until it ends, is killed, or is taken over."""

    def __init__(self, world: World, process: Process) -> None:
        # configuration
        self._world = world
        self._process = process
        self._storage = SharedStorage(world)
        plan = two_chains(1 + world.seed % 2)
        self._bundle = JobBundle(JOB, plan, self._storage)
        # transient
        self._parallelism = JobParallelism(plan, 1)
        self.coordinator: Coordinator | None = None
        self.snapshots: Snapshots | None = None

    def run(self) -> None:
        """Run the job to its end."""
        lineage: str | None = None
        for _ in range(_MOST_RESTARTS):
            coordinator = self.coordinator = self._assemble(lineage)
            try:
                return self._epochs(coordinator)
            except FencedError as error:
                self._check_fenced(coordinator.lineage)
                self._world.coverage.happened["a driver was fenced"] += 1
                return self._world.tell("driver", self._process.number, "was fenced:", str(error))
            except (CorruptFileError, CheckpointOwnershipError) as error:
                return self._world.disk.violations.append(f"driver {self._process.number} ended with {error!r}")
            except TidemillError as error:
                self._world.coverage.happened["a driver starts again"] += 1
                self._world.tell("driver", self._process.number, "failed:", str(error))
            finally:
                if not self._process.dead:
                    coordinator.close()
            lineage = coordinator.lineage or lineage
        return self._world.another(0)

    def sweep(self) -> None:
        """Take the job over, run it to its end, and delete what is not needed."""
        coordinator = self.coordinator = self._assemble(None)
        self._epochs(coordinator)
        if self.snapshots is not None:
            self.snapshots.stop()
            if self.snapshots._cleaner is not None:
                self.snapshots._cleaner.collect()
            self._world.in_progress = frozenset(self.snapshots._in_progress)
        coordinator.close()

    def _assemble(self, lineage: str | None) -> Coordinator:
        world = self._world
        self.snapshots = Snapshots(self._storage, self._merge, background=False, fan_in=world.habits.fan_in)
        self.snapshots._executor = _Background(world, self._process)  # type: ignore[assignment]
        return Coordinator(
            self._bundle,
            Tasks(world, self._storage),
            self._parallelism,
            {KEYED: _Output(world)},
            clock=lambda: len(world.disk.history),
            snapshots=self.snapshots,
            after=lineage,
        )

    def _epochs(self, coordinator: Coordinator) -> None:
        world, dice = self._world, self._world.dice
        coordinator.open()
        world.tell("driver", self._process.number, "opened", coordinator.lineage, "at epoch", coordinator.head.epoch)
        while True:
            spark = coordinator.head.spark
            batch = int(spark["batch_id"]) if spark else -1
            if spark and dice.random() < 0.2:  # Spark offers again what it does not know to be committed
                world.coverage.happened["a batch is offered again"] += 1
                batch -= 1
            batch += 1
            if batch >= world.habits.batches:
                return
            if dice.random() < world.habits.rescales:
                self._parallelism.request(dice.randint(1, 3))
            self._parallelism.take_up()
            if should_skip(coordinator.head, batch, f"offsets {batch}"):
                continue
            position = {"batch_id": batch, "offsets": f"offsets {batch}"}
            manifest = coordinator.run_epoch(EpochInput(positions={SOURCE: batch}, spark=position))
            self._check_committed(manifest)

    def _check_committed(self, manifest: Manifest) -> None:
        world = self._world
        world.tell("driver", self._process.number, "committed epoch", manifest.epoch, "in slot", manifest.slot)
        world.coverage.happened["an epoch was run again"] += manifest.rerun > 0
        if world.disk.history[manifest.slot - 1 :][:1] != [manifest]:
            world.disk.violations.append(f"epoch {manifest.epoch} is reported to be committed, and is not")

    def _check_fenced(self, lineage: str) -> None:
        head = self._world.disk.head
        if lineage and head is not None and head.lineage == lineage:
            self._world.disk.violations.append(f"lineage {lineage} was fenced, but nobody took over from it")

    def _merge(self, slices: Sequence[Slice]) -> list[Piece | None]:
        """Merging lines is joining them."""
        self._world.coverage.happened["runs were merged"] += 1
        pieces: list[Piece | None] = []
        for part in slices:
            data = b"".join(reader.read() for reader in part.readers)
            file = None
            if self._world.dice.random() < self._world.habits.files:
                file = snapshot_file_name(part.snapshot, part.number)
                self._storage.write(file, data)
            pieces.append(piece_of(part.number, "", data, file, 0, GROUPS - 1))
        return pieces
