"""Everything that survives the processes of a simulated job: its storage, input and output, and the planned faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from tidemill.checkpoint.manifest import decode_manifest
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import parse_manifest
from tidemill.checkpoint.retention import names_referenced
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.connectors.collect import CollectSink
from tidemill.errors import CheckpointError
from tidemill.faults import InjectedFaultError, ProcessDeath
from tidemill.testing.faulty_storage import Fate, FaultyStorage
from tidemill.testing.simulation.cluster import WorkerKilledError
from tidemill.testing.simulation.disks import LocalDisks
from tidemill.testing.simulation.output import OutputSystem
from tidemill.testing.simulation.trouble import PlannedFault, Troubles


class KilledError(ProcessDeath):
    """Simulates the death of the running driver."""


class Disk(MemoryStorage):
    """The storage itself. It keeps every manifest, and detects the deletion of files that are still needed."""

    def __init__(self) -> None:
        super().__init__()
        self.manifests: dict[int, Manifest] = {}
        self.late_claims: dict[int, Manifest] = {}
        self.violations: list[str] = []

    @property
    def head(self) -> Manifest | None:
        """The last manifest."""
        return self.manifests[max(self.manifests)] if self.manifests else None

    def create(self, name: str, data: bytes) -> None:
        super().create(name, data)
        slot = parse_manifest(name)
        if slot is None:
            return
        manifest = decode_manifest(data, name)
        if slot > max(self.manifests, default=0):
            self.manifests[slot] = manifest
        elif manifest.kind == "takeover" and slot not in self.late_claims:
            self.late_claims[slot] = manifest  # in a slot that retention had cleared: see ManifestLog.open_lineage
        else:
            self.violations.append(f"slot {slot} was created again, with epoch {manifest.epoch}")

    def write(self, name: str, data: bytes) -> None:
        if self.exists(name):
            self.violations.append(f"{name} was written twice")
        super().write(name, data)

    def delete(self, names: Iterable[str]) -> None:
        wanted = [*names]
        for name in sorted(self.referenced().intersection(wanted)):
            self.violations.append(f"{name} was deleted, although the head refers to it")
        super().delete(wanted)

    def referenced(self) -> frozenset[str]:
        """Return the names that the head needs."""
        head = self.head
        if head is None:
            return frozenset()
        return names_referenced(
            head, lambda slot: self.manifests[slot], lambda snapshot: read_snapshot_index(self, snapshot)
        )


class World:
    """The shared state of a simulated run, and its event log."""

    def __init__(self, troubles: Sequence[PlannedFault], seed: str) -> None:
        self.troubles = Troubles(list(troubles))
        self.dice = random.Random(seed)
        self.disk = Disk()
        self.storage = FaultyStorage(self.disk, self._fate)
        self.output = OutputSystem("simulation", self._committables)
        self.collected = CollectSink("collected")
        self.story: list[str] = []
        self.violations: list[str] = []
        #: Called when a driver is paused, with the fault's choice.
        self.on_pause: Callable[[int], None] = lambda choice: None
        #: Called whenever a point is passed.
        self.on_step: Callable[[], None] = lambda: None
        self._worker: int | None = None
        self.disks = LocalDisks(random.Random(f"disks of {seed}"), lambda: self._worker)

    def tell(self, line: str) -> None:
        """Add a line to the event log."""
        self.story.append(line)

    def enter(self, worker: int | None) -> int | None:
        """Set which worker runs (None is the driver); returns the previous one."""
        before, self._worker = self._worker, worker
        return before

    def reach(self, point: str) -> None:
        """Pass a point of the protocol."""
        self.on_step()
        trouble = self.troubles.meet(point)
        if trouble is not None:
            self._strike(trouble, trouble.what.partition(" ")[0])

    def meet(self, at: str) -> PlannedFault | None:
        """Pass another place, and return the fault that is due there, for the caller to inject."""
        trouble = self.troubles.meet(at)
        if trouble is not None:
            self.tell(f"  ! {trouble}")
        return trouble

    def _strike(self, trouble: PlannedFault, action: str) -> None:
        on_worker = self._worker is not None and trouble.choice % 3 != 0
        self.tell(f"  ! {trouble}" + (f" (worker {self._worker})" if self._worker is not None else " (driver)"))
        if action == "pause":
            before = self.enter(None)
            self.on_pause(trouble.choice)
            self.enter(before)
            self.tell("  the paused driver resumes")
        elif action == "kill":
            self.disks.dying = on_worker
            raise WorkerKilledError(str(trouble)) if on_worker else KilledError(str(trouble))
        elif trouble.at.startswith("storage."):
            raise CheckpointError(f"injected: {trouble}")
        else:
            raise InjectedFaultError(str(trouble))

    def _fate(self, call: str, name: str) -> Fate | None:
        trouble = self.troubles.meet(
            f"storage.{call} {name.partition('/')[0]}" if call == "write" else f"storage.{call}"
        )
        if trouble is None:
            return None
        action, _, when = trouble.what.partition(" ")

        def strike() -> None:
            self._strike(trouble, action)

        if action == "leave":
            self.tell(f"  ! {trouble}")
            return Fate(leave_out=1 + trouble.choice % 3)
        if when == "before":
            return Fate(before=strike)
        return Fate(after=strike, leave_out=1 + trouble.choice % 3 if when == "in the middle" else 0)

    def _committables(self, epoch: int, sink: str, subtask: int) -> Sequence[bytes] | None:
        for manifest in reversed(self.disk.manifests.values()):
            if manifest.epoch == epoch and manifest.kind == "epoch":
                return manifest.committables.get(sink, {}).get(subtask)
        return None
