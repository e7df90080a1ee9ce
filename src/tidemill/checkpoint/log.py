"""The log of manifests: numbered slots, each created exactly once. The driver that creates a slot owns what follows it.

The log makes it safe for two drivers to run the same job. A driver first claims the job with a *takeover record* in the
next slot. From then on, the next publish of a former driver finds its slot taken, and that driver stops. This requires
neither clocks nor leases, only the exclusive create of the storage. Slots count from 1.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tidemill.checkpoint.claims import (
    check_follows,
    check_still_ours,
    publish_outcome,
    takeover_outcome,
    takeover_record,
)
from tidemill.checkpoint.manifest import decode_manifest, encode_manifest
from tidemill.checkpoint.model import Lineage, Manifest, Slot
from tidemill.checkpoint.names import MANIFESTS, lineage_id, manifest_name, parse_manifest
from tidemill.checkpoint.retention import find_last, names_referenced
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.api import AlreadyExistsError, NotFoundError, Storage
from tidemill.errors import CheckpointError, CheckpointOwnershipError, CorruptFileError, FencedError
from tidemill.faults import reach

#: How often a takeover is retried while a running driver keeps publishing epochs. One attempt takes milliseconds.
_TAKEOVER_TRIES = 100


class Opened(NamedTuple):
    """A new lineage, and the manifest it resumes from (None if the job is new)."""

    lineage: Lineage
    restored: Manifest | None


def _token() -> str:
    return secrets.token_hex(8)


def has_committed(head: Manifest | None) -> bool:
    """Whether a job with this head has committed state to resume from; if not, it may start from a savepoint."""
    return head is not None and bool(head.epoch or head.runs or head.sources or head.spark)


class ManifestLog:
    """The manifests of one job. Not thread-safe, except for :meth:`read`."""

    def __init__(self, storage: Storage, job_id: str, *, token: Callable[[], str] = _token) -> None:
        # configuration
        self._storage = storage
        self._job_id = job_id
        self._token = token
        # transient
        self._head: Manifest | None = None
        self._fenced: str | None = None

    @property
    def job_id(self) -> str:
        """The id of the job that owns these manifests."""
        return self._job_id

    @property
    def head(self) -> Manifest:
        """The last manifest this driver wrote: the takeover record, later the last epoch. Needs an open lineage."""
        if self._head is None:
            raise CheckpointError("no lineage is open: call open_lineage() first")
        return self._head

    def last_slot(self) -> Slot | None:
        """The last slot of the log, or None if it is empty. Correct even if a listing omits names."""
        slots = [parse_manifest(name) or 0 for name in self._storage.list(MANIFESTS)]
        last = find_last(max(slots, default=0), lambda slot: self._storage.exists(manifest_name(slot)))
        return Slot(last) if last else None

    def read(self, slot: int) -> Manifest:
        """The manifest in ``slot``.

        Raises :class:`NotFoundError` if there is none, :class:`CorruptFileError` if it is damaged or belongs to another
        slot, and :class:`CheckpointOwnershipError` if it belongs to another job.
        """
        return self._decode(slot, self._storage.read(manifest_name(slot)))

    def read_head(self) -> Manifest | None:
        """The last manifest, for inspection: claims nothing. A damaged manifest is never skipped.

        Raises :class:`CorruptFileError` that names the file and the last earlier slot that can be restored.
        """
        last = self.last_slot()
        if last is None:
            return None
        try:
            return self.read(last)
        except CorruptFileError as error:
            raise CorruptFileError(f"{error}. {self._offer(last)}") from error

    def checkpoints(self) -> list[Manifest]:
        """The retained checkpoints of the head, oldest first; those that cannot be read are omitted."""
        return [found for slot in self.head.checkpoints if (found := self._restorable(slot)) is not None]

    def operators_of(self, manifest: Manifest) -> dict[str, Any]:
        """The description of the operators at ``manifest``, regardless of which manifest in the log stores it.

        Raises :class:`CorruptFileError` if it is missing, and a plain :class:`CheckpointError` if the reason is that
        another driver has continued from ``manifest`` and cleaned up: a retry finds the new head.
        """
        if manifest.operators_slot is None:
            return manifest.operators
        try:
            return self.read(manifest.operators_slot).operators
        except NotFoundError as error:
            names = f"{manifest_name(manifest.operators_slot)} is missing, but {manifest_name(manifest.slot)} refers to"
            last = self.last_slot() or 0
            if last > manifest.slot:
                raise CheckpointError(f"{names} it, which is no longer the head: slot {last} is") from error
            raise CorruptFileError(f"{names} it") from error

    def open_lineage(
        self,
        from_slot: int | None = None,
        *,
        initial: Manifest | None = None,
        begins: Mapping[str, str] | None = None,
        after: str | None = None,
        anew: bool = False,
    ) -> Opened:
        """Claim the job for this driver. After that, no other driver can publish, and :attr:`head` is enough to resume.

        1. Find the last slot and read its manifest, or the manifest of ``from_slot`` if that is given.
        2. Build the takeover record: a copy of the manifest without attempts (a worker never continues with the
           in-memory state of another lineage) and without pieces of its own (the runs refer to them), and with the
           full description of the operators.
        3. Create it in the slot after the last one. If a former driver published an epoch in the meantime, start over.
        4. Check that it is the last one. If not, the slot was free only because retention had deleted an epoch that was
           committed there after step 1 (retention never deletes takeover records): start over. The record in the gap
           has no meaning, but it stays. If the actual reason was a driver that took over from us, deleting the record
           would remove a fence.

        ``from_slot`` is any slot that can be restored: the one before the head, a retained checkpoint, or, as long as
        no former driver is left that may still clean up, any other. ``initial`` is the state a job starts from (a
        restored savepoint); its runs may refer to snapshots only. ``begins`` describes that state: with it, a new
        history starts, whatever the job has committed before. Without it, the job must not have committed anything. If
        another driver has already started a history from the same state in the meantime, it is not started again: the
        job resumes. ``after`` is the lineage this driver had before: if it is no longer the last one, another driver
        owns the job. With ``anew``, the job starts with empty state, whatever it has committed; former drivers stay
        fenced off.

        Raises :class:`CorruptFileError` for a damaged head (with an earlier slot to restore),
        :class:`CheckpointOwnershipError` for another job's directory, and :class:`FencedError` if another driver
        claimed the job at the same time, or since ``after``.
        """
        for _ in range(_TAKEOVER_TRIES):
            last = self.last_slot() or Slot(0)
            if begins is not None and self._has_begun(begins):
                initial = begins = None
            basis = None if anew else self._basis(last, from_slot, initial, replaces=begins is not None)  # 1
            owner = self.read_head() if (anew or initial is not None) and after is not None else basis
            check_still_ours(self._job_id, after, owner)
            slot = Slot(last + 1)
            lineage = lineage_id(slot, self._token())
            record = self._takeover(basis, slot, lineage, {} if anew else begins)  # 2
            reach("lineage.before")
            winner = self._claim(slot, encode_manifest(record))  # 3
            is_last = winner is None and self.last_slot() == slot  # 4
            beyond = None if winner is not None or is_last else self._read_if_there(slot + 1)
            if takeover_outcome(self._job_id, winner, last=is_last, beyond=beyond):
                reach("lineage.after")
                self._head = record
                self._fenced = None
                return Opened(lineage, basis)
        raise CheckpointError(
            f"could not take over job {self._job_id}: another driver committed {_TAKEOVER_TRIES} epochs meanwhile; "
            "stop that driver first"
        )

    def publish(self, manifest: Manifest) -> None:
        """Commit an epoch: create the slot after the head with ``manifest``, which is then durable and the new head.

        If the slot already contains the same bytes, an earlier call succeeded although it reported a failure: this
        counts as success. Any :class:`CheckpointError` leaves the outcome unknown; calling again with the same manifest
        resolves it.

        Raises :class:`FencedError` if another lineage took over: this driver must stop and may commit nothing. From
        then on every call raises it.
        """
        head = self.head
        if self._fenced:
            raise FencedError(self._fenced)
        check_follows(head, manifest)
        data = encode_manifest(manifest)
        reach("manifest.before")
        self._fenced = publish_outcome(head, manifest, self._claim(manifest.slot, data))
        if self._fenced:
            raise FencedError(self._fenced)
        reach("manifest.after")
        self._head = manifest

    def check_next_slot(self) -> None:
        """Like :meth:`check_owner`, with a single request: a driver that takes over writes into the slot after ours."""
        if self._storage.exists(manifest_name(self.head.slot + 1)):
            self.check_owner()

    def check_owner(self) -> None:
        """Raise :class:`FencedError` if another lineage has taken over; return normally otherwise."""
        head, last = self.head, self.last_slot()
        if last is None or last <= head.slot:
            return
        winner = self.read(last)
        if winner.lineage != head.lineage:
            self._fenced = (
                f"job {self._job_id} was taken over by lineage {winner.lineage} (slot {winner.slot}); this driver, "
                f"lineage {head.lineage}, stops after epoch {head.epoch}"
            )
            raise FencedError(self._fenced)

    def _claim(self, slot: Slot, data: bytes) -> Manifest | None:
        """Create ``slot``; return None if it is ours now, else the manifest that occupies it.

        After a failure whose outcome is unknown, a second create decides: it succeeds, or it reveals what is stored in
        the slot (which is then durable).
        """
        name = manifest_name(slot)
        try:
            try:
                self._storage.create(name, data)
            except AlreadyExistsError:
                raise
            except CheckpointError:
                self._storage.create(name, data)
        except AlreadyExistsError:
            found = self._storage.read(name)
            return None if found == data else self._decode(slot, found)
        return None

    def _decode(self, slot: int, data: bytes) -> Manifest:
        name = manifest_name(slot)
        manifest = decode_manifest(data, name)
        if manifest.job_id != self._job_id:
            raise CheckpointOwnershipError(
                f"the checkpoint directory belongs to job {manifest.job_id!r} ({name}), not to job {self._job_id!r}; "
                "use a separate directory for each job, or start this one from a savepoint"
            )
        if manifest.slot != slot:
            raise CorruptFileError(f"{name} is corrupt: it contains the manifest of slot {manifest.slot}")
        return manifest

    def _basis(self, last: Slot, from_slot: int | None, initial: Manifest | None, *, replaces: bool) -> Manifest | None:
        if initial is not None:
            if from_slot is not None or (not replaces and has_committed(self.read_head() if last else None)):
                raise CheckpointError(f"job {self._job_id} has checkpoints already: it cannot start from other state")
            if initial.pieces or initial.operators_slot or any(run.slot is not None for run in initial.runs):
                raise CheckpointError(
                    "the state a job starts from must be in snapshots, not in another job's manifests"
                )
            return initial
        if from_slot is None:
            return self.read_head()
        if not 1 <= from_slot <= last:
            raise CheckpointError(f"there is no slot {from_slot} to start from; the last one is {last}")
        manifest = self.read(from_slot)
        if missing := self._missing(manifest):
            raise CheckpointError(
                f"slot {from_slot} (epoch {manifest.epoch}) cannot be restored, it is not a retained checkpoint: "
                f"{len(missing)} files are missing, among them {missing[0]}"
            )
        # A checkpoint that was retained then may have been released since; its files may be deleted, or about to be.
        still = manifest.checkpoints
        with contextlib.suppress(CheckpointError):
            still = self.read(last).checkpoints
        kept = (slot for slot in manifest.checkpoints if slot in still and self._restorable(slot) is not None)
        return replace(manifest, checkpoints=tuple(kept))

    def _has_begun(self, begins: Mapping[str, str]) -> bool:
        """Whether the job's current history is the one described by ``begins``."""
        head = self.read_head()
        return head is not None and has_committed(head) and head.history.get("id") == begins["id"]

    def _takeover(
        self, basis: Manifest | None, slot: Slot, lineage: Lineage, begins: Mapping[str, str] | None
    ) -> Manifest:
        operators = {} if basis is None else self.operators_of(basis)
        return takeover_record(
            basis, job_id=self._job_id, slot=slot, lineage=lineage, operators=operators, begins=begins
        )

    def _read_if_there(self, slot: int) -> Manifest | None:
        return self.read(slot) if self._storage.exists(manifest_name(slot)) else None

    def _missing(self, manifest: Manifest) -> list[str]:
        """The missing files that ``manifest`` needs to be restored; raises if they cannot be determined."""
        names = names_referenced(manifest, self.read, lambda snapshot: read_snapshot_index(self._storage, snapshot))
        return sorted(name for name in names if not self._storage.exists(name))

    def _restorable(self, slot: Slot) -> Manifest | None:
        """The manifest in ``slot``, if it and everything it refers to is intact."""
        try:
            manifest = self.read(slot)
            return None if self._missing(manifest) else manifest
        except CheckpointError:
            return None

    def _offer(self, damaged: Slot) -> str:
        slots = sorted(filter(None, map(parse_manifest, self._storage.list(MANIFESTS))), reverse=True)
        for slot in slots:
            if slot < damaged and (manifest := self._restorable(slot)) is not None:
                return (
                    f"The last manifest before it that can be restored is slot {slot} (epoch {manifest.epoch}). To "
                    "return to it, and lose what was committed since, start another job id from the directory of this "
                    f"job with /chk-{manifest.epoch} appended (execution.state-recovery.path)"
                )
        return (
            "No earlier manifest can be restored. Start another job id from a savepoint, or start without state with "
            "execution.resume-mode: none"
        )
