"""The output system of simulated jobs: a two-phase commit system that detects invalid requests."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkWriter, WriterContext
from tidemill.connectors.write_ahead_log import Delivery, Destination, LogWriter, Mark, WriteAheadLogSink

#: All systems by name: a sink is sent to workers, but the system is not.
_SYSTEMS: Final[dict[str, OutputSystem]] = {}


class OutputSystem:
    """Records that are staged under a unique name, and later committed, once per (sink, epoch, subtask).

    ``published`` returns the names in the manifest of an epoch for a sink and a subtask, or None if there is no
    manifest.
    """

    def __init__(self, name: str, published: Callable[[int, str, int], Sequence[bytes] | None]) -> None:
        self.name = name
        self._published = published
        self._staged: dict[str, list[Any]] = {}
        self._committed: dict[tuple[str, int, int], tuple[Sequence[bytes], list[Any]]] = {}
        self._marks: dict[tuple[str, int], Mark] = {}
        self.violations: list[str] = []
        _SYSTEMS[name] = self

    def stage(self, name: str, records: list[Any]) -> None:
        """Stage records under a unique name."""
        if name in self._staged:
            self.violations.append(f"two attempts staged output under one name, {name}")
        self._staged[name] = records

    def commit(self, sink: str, part: Committed) -> None:
        """Make staged records visible. A repeated commit has no effect."""
        place, names = (sink, part.epoch, part.subtask), tuple(part.committables)
        if self._published(part.epoch, sink, part.subtask) != names:
            self.violations.append(f"{place} was committed with {names}, which no manifest of that epoch has")
        if place in self._committed:
            if self._committed[place][0] != names:
                self.violations.append(f"{place} was committed twice, with different output")
            return
        records: list[Any] = []
        for name in names:
            staged = self._staged.pop(name.decode(), None)
            if staged is None:
                self.violations.append(f"{place} was committed with {name.decode()}, which no longer exists")
            records += staged or []
        self._committed[place] = (names, records)

    def discard(self, sink: str, in_use: Sequence[bytes], lineage: str) -> None:
        """Discard the staged records of a sink in this lineage and older ones, except names in use."""
        keep = {name.decode() for name in in_use}
        for name in [name for name in self._staged if name.startswith(f"{sink}/") and name not in keep]:
            if name.split("/")[1] <= lineage:
                del self._staged[name]

    def deliver(self, delivery: Delivery) -> None:
        """Accept a delivery from a write-ahead log, unless its mark shows that it was already delivered."""
        sink, place = delivery.operator_uid, (delivery.operator_uid, delivery.subtask)
        if delivery.covered_by(self._marks.get(place)):
            return
        records = [record for batch in delivery.batches() for record in pickle.loads(batch)]
        if delivery.covered_by(self._marks.get(place)):  # reading takes time; from here on it is atomic
            return
        if self._published(delivery.epoch, sink, delivery.subtask) is None:
            self.violations.append(f"{place} was delivered in epoch {delivery.epoch}, of which there is no manifest")
        where = (sink, delivery.epoch, delivery.subtask)
        if where in self._committed:
            self.violations.append(f"{where} was delivered twice")
        self._committed[where] = ((), records)
        self._marks[place] = delivery.mark

    def left(self) -> list[str]:
        """Return the names that are staged and not committed."""
        return sorted(self._staged)

    def by_epoch(self, sink: str) -> dict[int, list[Any]]:
        """Return the committed records of each epoch that has any, subtask by subtask."""
        found: dict[int, list[Any]] = {}
        for (owner, epoch, _), (_, records) in sorted(self._committed.items(), key=lambda item: item[0]):
            if owner == sink and records:
                found.setdefault(epoch, []).extend(records)
        return found


class SystemSink(Sink):
    """Writes to an :class:`OutputSystem`, with exactly-once semantics."""

    guarantee = "exactly-once"

    def __init__(self, system: str) -> None:
        self._system = system

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that stages the records of each epoch at the barrier."""
        return _SystemWriter(self._system)

    def create_committer(self) -> Committer:
        """Create a committer that makes them visible."""
        return _SystemCommitter(_SYSTEMS[self._system])


class LoggedSink(WriteAheadLogSink):
    """Writes to an :class:`OutputSystem` through a write-ahead log, whose files contain a few records each."""

    def __init__(self, system: str, inline: int) -> None:
        self._system = system
        self._inline = inline

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return LogWriter(self.encode, inline=self._inline, part=300)

    def create_destination(self) -> Destination:
        return _SystemDestination(_SYSTEMS[self._system])


class _SystemDestination(Destination):
    def __init__(self, system: OutputSystem) -> None:
        self._system = system

    def deliver(self, delivery: Delivery) -> None:
        self._system.deliver(delivery)


class _SystemWriter(SinkWriter):
    def __init__(self, system: str) -> None:
        self._system = system
        self._records: list[Any] = []

    def begin_epoch(self, context: WriterContext) -> None:
        self._name = f"{context.operator_uid}/{context.lineage}/{context.epoch}-{context.subtask}-{context.attempt}"
        self._records = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._records += values

    def prepare_commit(self) -> Sequence[bytes]:
        if not self._records:
            return ()
        _SYSTEMS[self._system].stage(self._name, self._records)
        self._records = []
        return (self._name.encode(),)


class _SystemCommitter(Committer):
    def __init__(self, system: OutputSystem) -> None:
        self._system = system
        self._sink = ""

    def open(self, context: CommitterContext) -> None:
        self._sink = context.operator_uid

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in committed:
            self._system.commit(self._sink, part)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        self._system.discard(self._sink, names_in_use, lineage)
