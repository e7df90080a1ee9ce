"""Carries out retention: deletes the files that no kept manifest refers to. ``retention`` makes the decisions."""

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
    """Deletes files that the driver that owns ``log`` no longer needs. Not thread-safe.

    A cleaner may run in a thread of its own, alongside the driver's.

    ``in_progress`` returns the ids of the snapshots that are being written. A snapshot is in progress from before its
    first file is written until a manifest that names it is published, or until it is abandoned. ``pinned`` returns the
    slots of manifests that are being copied; each was pinned while it was the head.
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
        """Delete what is not needed, and return the deleted names. ``spare`` as in ``kept_slots``.

        Safe to kill at any moment. The steps:

        1. List all names.
        2. Get the snapshots in progress.
        3. Get the head. In this order, every listed name is either protected or known to the head.
        4. Collect what the kept manifests and the pinned manifests refer to. The pinned slots are read after the head,
        so
           each of them is either known or was the head at that time.
        5. Look for fences among the manifests of earlier lineages; each is read once.
        6. Delete the rest.

        Raises :class:`~tidemill.errors.FencedError` if another driver took over, and
        :class:`~tidemill.errors.CheckpointError` if the head or a retained checkpoint cannot be read. In both cases
        nothing has been deleted.
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
                # The manifest before the head is a spare. It is kept only as long as it is intact.
        return names

    def _is_fence(self, slot: Slot) -> bool:
        try:
            return self._log.read(slot).kind == "takeover"
        except NotFoundError:
            return False
        except CheckpointError:
            return True  # unreadable, but it still keeps other drivers out of the slot


def discard_job(storage: Storage, job_id: str, after: str | None = None) -> None:
    """Delete everything that a job has committed. The next start finds no state, and running drivers are fenced off.

    ``after`` is the lineage on whose behalf the job is discarded. If another driver owns the job by now, nothing is
    deleted and :class:`~tidemill.errors.FencedError` is raised.

    Takeover records stay, because they are the fences, together with a new one that records that there is no state.
    Safe to kill at any moment: before that record is written nothing is lost, and after it the next sweep finds the
    leftovers. Files of lineages whose manifests are lost are deleted as well, because no sweep would find them.
    """
    manifests = ManifestLog(storage, job_id)
    there = evidence(storage)
    manifests.open_lineage(anew=True, after=after)
    # These names were listed before our record became the last one, so they belong to earlier lineages. Names listed
    # later could belong to any lineage.
    storage.delete(one.name for one in beyond(manifests.head, there))
    Cleaner(storage, manifests, tuple).collect(spare=False)
    found = [*storage.list(INPUT), *_earlier_logs(storage, manifests.head.lineage)]
    manifests.check_owner()
    # The markers are deleted first: partially deleted input must not be taken for complete input.
    markers = [name for name in found if name.endswith(f"/{CHOSEN}")]
    storage.delete(markers)
    if isinstance(storage, LocalStorage):
        for folder in (INPUT, SPARK):
            shutil.rmtree(storage.root / folder, ignore_errors=True)
    else:
        # Deleting one object at a time takes a while. Files that a driver stores after the listing are not affected.
        storage.delete(name for name in found if name not in markers)


def _earlier_logs(storage: Storage, lineage: str) -> list[str]:
    """The names of Spark files of lineages earlier than this one; files of later lineages belong to their drivers."""
    own = lineage_slot(lineage) or 0
    return [name for name in storage.list(SPARK) if (lineage_slot(name.split("/")[1]) or 0) < own]
