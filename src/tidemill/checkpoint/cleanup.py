"""Retention, carried out: deletes what no kept manifest refers to. The decisions are in ``retention``."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Collection

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.lost_manifests import beyond, evidence
from tidemill.checkpoint.model import Manifest, Slot
from tidemill.checkpoint.names import INPUT, MANIFESTS, SNAPSHOTS, SPARK, STATE, lineage_slot, manifest_name
from tidemill.checkpoint.portable import CHOSEN
from tidemill.checkpoint.retention import check_owner, doubtful_slots, kept_slots, names_referenced, plan_retention
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.errors import CheckpointError, CorruptFileError
from tidemill.faults import reach


class Cleaner:
    """Deletes what the driver that owns ``log`` no longer needs. For one thread; it may run beside the driver's.

    ``in_progress`` returns the ids of the snapshots that are being made: from before the first file of one is written
    until a manifest that names it is published, or it is given up. ``pinned`` returns the slots of manifests that are
    being copied: each from a moment when it is the head.
    """

    def __init__(
        self,
        storage: Storage,
        log: ManifestLog,
        in_progress: Callable[[], Collection[str]],
        pinned: Callable[[], Collection[Slot]] = tuple,
    ) -> None:
        # configuration
        self._storage = storage
        self._log = log
        self._in_progress = in_progress
        self._pinned = pinned
        # transient
        self._fences: set[Slot] = set()

    def collect(self, *, spare: bool = True) -> tuple[str, ...]:
        """Delete what is not needed; returns the names. May be killed at any moment. ``spare`` as in ``kept_slots``.

        1. List all names. 2. Ask for the snapshots in progress. 3. Take the head. In this order, what is listed is
        either protected or known to the head. 4. Gather what the kept manifests refer to, and the pinned ones: asked
        for after the head, they are known or were the head then. 5. Look for fences among the
        manifests of earlier lineages; each is read once. 6. Delete the rest.

        Raises, having deleted nothing, :class:`~tidemill.errors.FencedError` if another driver took over, and
        :class:`~tidemill.errors.CheckpointError` if the head or a retained checkpoint cannot be read.
        """
        existing = [name for prefix in (MANIFESTS, SNAPSHOTS, STATE) for name in self._storage.list(prefix)]  # 1
        in_progress = frozenset(self._in_progress())  # 2
        head = self._log.head  # 3
        check_owner(head, existing)
        referenced = self._referenced(head, spare)  # 4
        for slot in doubtful_slots(head, existing):  # 5
            if slot not in self._fences and manifest_name(slot) not in referenced and self._is_fence(slot):
                self._fences.add(slot)
        names = plan_retention(head, referenced, existing, in_progress, self._fences)
        if names:
            reach("retention.delete")
            self._storage.delete(names)  # 6
        if isinstance(self._storage, LocalStorage):
            self._storage.sweep_temporary()
        return names

    def _referenced(self, head: Manifest, spare: bool) -> set[str]:
        read = functools.cache(self._log.read)  # the kept manifests share most of their runs
        read_index = functools.cache(lambda snapshot: read_snapshot_index(self._storage, snapshot))
        names: set[str] = set()
        for slot in sorted({*kept_slots(head, spare=spare), *self._pinned()}, reverse=True):
            try:
                manifest = head if slot == head.slot else read(slot)
                names |= names_referenced(manifest, read, read_index)
            except (CorruptFileError, NotFoundError):
                if slot != head.slot - 1 or slot in head.checkpoints:
                    raise
                # The manifest before the head is a spare: kept as long as it is whole.
        return names

    def _is_fence(self, slot: Slot) -> bool:
        try:
            return self._log.read(slot).kind == "takeover"
        except NotFoundError:
            return False
        except CheckpointError:
            return True  # whatever it is, it keeps others out of the slot


def discard_job(storage: Storage, job_id: str, after: str | None = None) -> None:
    """Delete all that a job has committed; the next start finds nothing, and drivers that still run are fenced off.

    ``after`` is the lineage on whose behalf it is done: if the job is another driver's by now, nothing is deleted, and
    :class:`~tidemill.errors.FencedError` raised.

    Takeover records stay, since they are the fence, and with them one that says that there is nothing. May be killed at
    any moment: up to that record nothing is lost, after it what is left is found by the next sweep. Files of lineages
    whose manifests are lost are deleted as well; no sweep would find them.
    """
    manifests = ManifestLog(storage, job_id)
    there = evidence(storage)
    manifests.open_lineage(anew=True, after=after)
    # Listed before our record was the last one, they are of lineages from before: whose files came later is not known.
    storage.delete(one.name for one in beyond(manifests.head, there))
    Cleaner(storage, manifests, tuple).collect(spare=False)
    found = [*storage.list(INPUT), *_earlier_logs(storage, manifests.head.lineage)]
    manifests.check_owner()
    # The markers go first: input of which a part is deleted must not be taken for the whole.
    markers = [name for name in found if name.endswith(f"/{CHOSEN}")]
    storage.delete(markers)
    if isinstance(storage, LocalStorage):
        for folder in (INPUT, SPARK):
            shutil.rmtree(storage.root / folder, ignore_errors=True)
    else:
        # One by one this takes its time: what a driver that starts meanwhile has stored is not among them.
        storage.delete(name for name in found if name not in markers)


def _earlier_logs(storage: Storage, lineage: str) -> list[str]:
    """The names of what earlier lineages than this one have of Spark's; later ones are their drivers' own."""
    own = lineage_slot(lineage) or 0
    return [name for name in storage.list(SPARK) if (lineage_slot(name.split("/")[1]) or 0) < own]
