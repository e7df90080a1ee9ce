"""The disk of the protocol simulation: what is stored, and what must be true of it after every change.

It knows what any observer could know, and checks the invariants as things happen, by its own reckoning:

- committed history is linear: each slot is created once, each epoch follows the one before it, a takeover changes
  nothing that is committed;
- nothing committed is lost: the runs of a manifest hold every epoch's lines, once, and whole;
- nothing uncommitted counts: lines are of the attempts that the manifest names, and these read what was acked;
- what is deleted is not needed by the head, the manifest before it or a retained checkpoint.
"""

from __future__ import annotations

import functools
import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.checkpoint.manifest import decode_manifest
from tidemill.checkpoint.model import Manifest, Piece, RunRef
from tidemill.checkpoint.names import manifest_name, parse_manifest, snapshot_index_name
from tidemill.checkpoint.retention import kept_slots
from tidemill.checkpoint.snapshot_index import decode_snapshot_index
from tidemill.checkpoint.storage.api import AlreadyExistsError
from tidemill.errors import CheckpointError


@functools.lru_cache(maxsize=256)
def decode_once(data: bytes, name: str) -> Manifest:
    """What ``decode_manifest`` makes of the same bytes is the same: most of a schedule's time would go there."""
    return decode_manifest(data, name)


@dataclass(frozen=True)
class Line:
    """What one subtask adds to the state in one epoch: who it is, which batch it read, and whose output."""

    epoch: int
    batch: int
    subtask: int
    attempt: str
    consumed: tuple[str, ...]

    def encode(self) -> bytes:
        return f"{self.epoch} {self.batch} {self.subtask} {self.attempt} {','.join(self.consumed)}\n".encode()


def decode_lines(data: bytes) -> list[Line]:
    """The lines in a piece of state."""
    found = []
    for text in data.decode().splitlines():
        epoch, batch, subtask, attempt, consumed = text.split(" ")
        found.append(Line(int(epoch), int(batch), int(subtask), attempt, tuple(consumed.split(","))))
    return found


@dataclass(frozen=True)
class _Run:
    """What a run of a manifest holds, and the files it needs."""

    lines: tuple[Line, ...]
    names: frozenset[str]


class Disk:
    """Names and bytes, with the history of the log beside them. Not a storage yet: see ``protocol_storage``."""

    def __init__(self, source: str, keyed: str) -> None:
        """``source`` and ``keyed`` are the uids of the two chains."""
        self._source = source
        self._keyed = keyed
        self.files: dict[str, bytes] = {}
        #: The last changes: (name, whether it was there before).
        self.changes: deque[tuple[str, bool]] = deque(maxlen=12)
        self.violations: list[str] = []
        #: The log as it was written, whatever retention has deleted since.
        self.history: list[Manifest] = []
        self.late_claims: set[str] = set()
        self.lines: dict[int, tuple[Line, ...]] = {}
        self._created: dict[str, bytes] = {}
        self._runs: dict[RunRef, _Run] = {}
        self._needed_by: dict[int, frozenset[str]] = {}
        self._needed: frozenset[str] = frozenset()

    @property
    def head(self) -> Manifest | None:
        """The last manifest."""
        return self.history[-1] if self.history else None

    def create(self, name: str, data: bytes) -> None:
        """Store under a free name; of a manifest, check that it may come next."""
        if name in self.files:
            raise AlreadyExistsError(f"{name} exists already")
        self._store(name, data)
        slot = parse_manifest(name)
        if slot is None:
            return
        before = self._created.get(name)
        manifest = decode_once(data, name)
        if before is None:
            self._created[name] = data
        if slot == len(self.history) + 1:
            self._append(manifest)
        elif slot > len(self.history):
            self._break(f"slot {slot} is created, but the last one is {len(self.history)}")
        elif manifest.kind == "takeover":
            # In a slot that retention has emptied: means nothing, and stays. See ManifestLog.open_lineage.
            self.late_claims.add(name)
        elif before != data:
            self._break(f"slot {slot} is created again, with epoch {manifest.epoch} of {manifest.lineage}")

    def write(self, name: str, data: bytes) -> None:
        """Store under a name that only one writer has: the same bytes may come again, others not."""
        if self._created.setdefault(name, data) != data:
            self._break(f"{name} is written twice, with different content")
        self._store(name, data)

    def delete(self, names: Iterable[str]) -> None:
        """Delete in order."""
        for name in names:
            if name in self._needed:
                self._break(f"{name} is deleted, though a kept manifest refers to it")
            if name in self.files:
                self.changes.append((name, True))
                del self.files[name]

    def names(self, prefix: str, *, undo: int = 0) -> list[str]:
        """The names that begin with ``prefix``, as they were before the last ``undo`` changes."""
        names = {name for name in self.files if name.startswith(prefix)}
        for name, was_there in reversed([*self.changes][max(0, len(self.changes) - undo) :]):
            if name.startswith(prefix):
                (names.add if was_there else names.discard)(name)
        return sorted(names)

    def all_lines(self) -> list[Line]:
        """All that is committed, in order."""
        head = self.head
        return [line for epoch in range(1, head.epoch + 1) for line in self.lines[epoch]] if head else []

    def needed(self) -> frozenset[str]:
        """What kept manifests refer to."""
        return self._needed

    def _break(self, what: str) -> None:
        self.violations.append(what)

    def _store(self, name: str, data: bytes) -> None:
        self.changes.append((name, name in self.files))
        self.files[name] = data

    def _append(self, manifest: Manifest) -> None:
        before = self.head
        self.history.append(manifest)
        if manifest.kind == "takeover":
            self._check_takeover(before, manifest)
        else:
            self._check_epoch(before, manifest)
        self._check_runs(manifest)
        kept = kept_slots(manifest)
        for slot in [slot for slot in self._needed_by if slot not in kept]:
            del self._needed_by[slot]
        self._needed = frozenset().union(*self._needed_by.values())

    def _check_takeover(self, before: Manifest | None, manifest: Manifest) -> None:
        if any(manifest.lineage == earlier.lineage for earlier in self.history[:-1]):
            self._break(f"lineage {manifest.lineage} is opened twice")
        if before is None:
            if manifest.epoch or manifest.runs:
                self._break(f"a new job begins with epoch {manifest.epoch}")
            return
        for name in ("epoch", "runs", "sources", "spark", "committables", "checkpoints", "clock"):
            if getattr(manifest, name) != getattr(before, name):
                self._break(f"the takeover in slot {manifest.slot} changes the {name} that were committed")
        if manifest.attempts:
            self._break(f"the takeover in slot {manifest.slot} lets workers go on from another lineage's memory")

    def _check_epoch(self, before: Manifest | None, manifest: Manifest) -> None:
        where = f"epoch {manifest.epoch} in slot {manifest.slot}"
        if before is None or manifest.lineage != before.lineage or manifest.epoch != before.epoch + 1:
            self._break(f"{where} of {manifest.lineage} does not follow {before and (before.epoch, before.lineage)}")
        if before is not None and manifest.clock < before.clock:
            self._break(f"the clock goes back in {where}")
        attempts = manifest.attempts
        senders, keyed = attempts.get(self._source, ()), attempts.get(self._keyed, ())
        lines = tuple(line for piece in manifest.pieces for line in decode_lines(self._read(piece, where)))
        if [line.subtask for line in lines] != [*range(len(keyed))]:
            self._break(f"{where} has state of subtasks {[line.subtask for line in lines]} of {len(keyed)}")
        for line in lines:
            if line.epoch != manifest.epoch or line.attempt not in keyed:
                self._break(f"{where} holds what attempt {line.attempt} wrote for epoch {line.epoch}")
            if line.consumed != senders:
                self._break(f"{where}: subtask {line.subtask} read {line.consumed}, but {senders} were acked")
            if line.batch != manifest.epoch - 1:
                self._break(f"{where} holds batch {line.batch}: each batch is read once, in order")
        self.lines[manifest.epoch] = lines

    def _check_runs(self, manifest: Manifest) -> None:
        where = f"slot {manifest.slot}"
        names = {manifest_name(manifest.slot)}
        if manifest.operators_slot is not None:
            names.add(manifest_name(manifest.operators_slot))
        lines: list[Line] = []
        for ref in manifest.runs:
            run = self._runs.get(ref)
            if run is None:
                run = self._runs[ref] = self._look_into(ref, where)
            lines += run.lines
            names |= run.names
        if lines != self.all_lines():
            self._break(f"{where}: its runs hold {lines}, but {self.all_lines()} was committed")
        if missing := [name for name in names if name not in self.files]:
            self._break(f"{where} refers to {missing}, which is not there")
        self._needed_by[manifest.slot] = frozenset(names)

    def _look_into(self, ref: RunRef, where: str) -> _Run:
        if ref.snapshot is None:
            name = manifest_name(ref.slot or 0)
            pieces = self.history[(ref.slot or 0) - 1].pieces
        else:
            name = snapshot_index_name(ref.snapshot)
            if name not in self.files:
                self._break(f"{where} refers to {name}, which is not there")
                return _Run((), frozenset())
            pieces = decode_snapshot_index(self.files[name], name).pieces
        lines = tuple(line for piece in pieces for line in decode_lines(self._read(piece, where)))
        return _Run(lines, frozenset({name, *(piece.file for piece in pieces if piece.file is not None)}))

    def _read(self, piece: Piece, where: str) -> bytes:
        data = piece.data if piece.file is None else self.files.get(piece.file)
        if data is None:
            self._break(f"{where} refers to {piece.file}, which is not there")
            return b""
        if hashlib.sha256(data).hexdigest() != piece.sha256:
            raise CheckpointError(f"{where}: {piece.file} is not what its manifest says")
        return data
