"""The log of manifests: numbered slots, each created once. Who creates a slot owns what comes after it.

The log is what makes two drivers safe. A driver first claims the job with a *takeover record* in the next slot; from
then on a former driver's next publish finds its slot taken, and it stops. Neither clocks nor leases are needed, only
the exclusive create of the storage. Slots count from 1.
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

#: How often a takeover follows a living driver that publishes epochs meanwhile. One try needs milliseconds.
_TAKEOVER_TRIES = 100


class Opened(NamedTuple):
    """A new lineage, and the manifest it goes on from (None: the job is new)."""

    lineage: Lineage
    restored: Manifest | None


def _token() -> str:
    return secrets.token_hex(8)


def has_committed(head: Manifest | None) -> bool:
    """Whether a job with this head has anything to go on from; if not, it may start from a savepoint."""
    return head is not None and bool(head.epoch or head.runs or head.sources or head.spark)


class ManifestLog:
    """The manifests of one job. Not for use by several threads at once, apart from :meth:`read`."""

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
        """The job whose manifests these are."""
        return self._job_id

    @property
    def head(self) -> Manifest:
        """The last manifest this driver wrote: the takeover record, later the last epoch. Needs an open lineage."""
        if self._head is None:
            raise CheckpointError("no lineage is open: call open_lineage() first")
        return self._head

    def last_slot(self) -> Slot | None:
        """The last slot of the log, or None if it is empty. Right even if a list leaves names out."""
        slots = [parse_manifest(name) or 0 for name in self._storage.list(MANIFESTS)]
        last = find_last(max(slots, default=0), lambda slot: self._storage.exists(manifest_name(slot)))
        return Slot(last) if last else None

    def read(self, slot: int) -> Manifest:
        """The manifest in ``slot``.

        Raises :class:`NotFoundError` if there is none, :class:`CorruptFileError` if it is damaged or another slot's,
        and :class:`CheckpointOwnershipError` if it is another job's.
        """
        return self._decode(slot, self._storage.read(manifest_name(slot)))

    def read_head(self) -> Manifest | None:
        """The last manifest, without claiming anything (for inspection). A damaged one is never passed over.

        Raises :class:`CorruptFileError` that names the file and the last slot before it that can be restored.
        """
        last = self.last_slot()
        if last is None:
            return None
        try:
            return self.read(last)
        except CorruptFileError as error:
            raise CorruptFileError(f"{error}. {self._offer(last)}") from error

    def checkpoints(self) -> list[Manifest]:
        """The retained checkpoints of the head, oldest first; one that cannot be read is left out."""
        return [found for slot in self.head.checkpoints if (found := self._restorable(slot)) is not None]

    def operators_of(self, manifest: Manifest) -> dict[str, Any]:
        """The description of the operators at ``manifest``, wherever in the log it is stored.

        Raises :class:`CorruptFileError` if it is missing, and a plain :class:`CheckpointError` if that is because
        another driver has gone on from ``manifest`` and cleaned up: trying again finds the new head.
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
        """Claim the job for this driver. Afterwards no other driver can publish, and :attr:`head` is enough to resume.

        1. Find the last slot and read its manifest, or that of ``from_slot`` where one is chosen explicitly.
        2. Make the takeover record: all that the manifest says, with no attempts (no worker goes on from the memory of
           another lineage), no pieces of its own (the runs name them) and the operators' description in full.
        3. Create it in the slot after the last one. If a former driver published an epoch meanwhile, begin again.
        4. Look whether it is the last one. If not, the slot was free only because retention had deleted an epoch that
           was committed there after step 1 (takeover records it never deletes): begin again. The record in the gap
           means nothing, but stays: were it deleted, and the reason instead a driver that took over from us, it would
           be missing as a fence.

        ``from_slot`` is any slot that can be restored: the one before the head, a retained checkpoint, or, as long as
        no former driver is left that may still clean up, any other. ``initial`` is what a job starts from (a restored
        savepoint); its runs may name snapshots only. With ``begins``, which says what that is, a new history begins
        with it, whatever the job had committed; without, it must have committed nothing. A history that another driver
        has begun from the same state meanwhile is not begun again: the job resumes. ``after`` is the lineage this
        driver had before: if it is not the last one any more, the job is another driver's by now. With ``anew`` the job
        starts with nothing, whatever there was; former drivers stay fenced off.

        Raises :class:`CorruptFileError` for a damaged head (offering an earlier slot),
        :class:`CheckpointOwnershipError` for another job's directory, :class:`FencedError` if another driver claimed
        the job at the same moment, or since ``after``.
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
        """Commit an epoch: create the slot after the head with ``manifest``. On return it is durable, and the head.

        If the slot is taken by the same bytes, an earlier call of ours had succeeded without our knowing: that is
        success. Any :class:`CheckpointError` leaves the outcome unknown; calling again with the same manifest settles
        it.

        Raises :class:`FencedError` if another lineage took over: this driver must stop and may commit nothing. From
        then on every call does.
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
        """:meth:`check_owner` at the cost of one look: a driver that takes over writes into the slot after ours."""
        if self._storage.exists(manifest_name(self.head.slot + 1)):
            self.check_owner()

    def check_owner(self) -> None:
        """Raise :class:`FencedError` if another lineage has taken over; nothing else can be said without it."""
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
        """Create ``slot``; None if it is ours now, else the manifest that is there.

        A failure that may hide a success is settled by a second create: it succeeds, or shows what is there (and
        durable).
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
                "give each job a directory of its own, or start this one from a savepoint"
            )
        if manifest.slot != slot:
            raise CorruptFileError(f"{name} is corrupt: it holds the manifest of slot {manifest.slot}")
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
                f"{len(missing)} files are gone, among them {missing[0]}"
            )
        # A checkpoint that was retained then may have been let go since, and its files be gone, or about to go.
        still = manifest.checkpoints
        with contextlib.suppress(CheckpointError):
            still = self.read(last).checkpoints
        kept = (slot for slot in manifest.checkpoints if slot in still and self._restorable(slot) is not None)
        return replace(manifest, checkpoints=tuple(kept))

    def _has_begun(self, begins: Mapping[str, str]) -> bool:
        """Whether the job's present history is the one that is to begin."""
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
        """The names without which ``manifest`` cannot be restored; raises if they cannot be known."""
        names = names_referenced(manifest, self.read, lambda snapshot: read_snapshot_index(self._storage, snapshot))
        return sorted(name for name in names if not self._storage.exists(name))

    def _restorable(self, slot: Slot) -> Manifest | None:
        """The manifest in ``slot``, if it is whole and so is all it refers to."""
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
                    f"The last manifest before it that can be restored is slot {slot} (epoch {manifest.epoch}); to go "
                    "back to it, and lose what was committed since, start another job id from the directory of this "
                    f"job with /chk-{manifest.epoch} behind it (execution.state-recovery.path)"
                )
        return (
            "No earlier manifest can be restored. Start another job id from a savepoint, or begin anew with "
            "execution.resume-mode: none"
        )
