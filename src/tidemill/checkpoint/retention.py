"""Decides what a job's directory must keep and what may be deleted. Pure functions; ``cleanup`` carries them out.

Every name that a *kept manifest* refers to, directly or through its runs, is kept. Kept manifests are the head, the one
before it (as a fallback if the head is damaged), and the retained checkpoints.

Of the rest, a manifest may be deleted if it is older than the head and not a *waypoint*. A delta or a snapshot may be
deleted if no manifest can refer to it any more: it belongs to an older lineage, or to this lineage and to a committed
epoch (not the one now running), or, for a snapshot, to no compaction in progress. Files of a newer lineage are left to
that lineage, and files with names that Tidemill did not create are never touched.

**Fences** are the takeover records. They are never deleted. A driver that was taken over would try to create the slot
that contains the takeover record; if the record were deleted, the zombie would succeed and believe that it had
committed. The cost of not needing a clock is one small file per start of the job. A driver that is about to claim the
job may be suspended while the epoch in its target slot is deleted. For that case it checks, after its claim, whether
there is a later slot (see ``log``).

**Waypoints** let a driver find the head without relying on a listing. They are the slot numbers obtained by clearing
the lowest set bits of the head's slot number one after the other: 13 = 0b1101 has the waypoints 13, 12, 8. The head is
found bit by bit with ``exists``. A waypoint of a later head that exists today is a waypoint of today's head (both share
the higher bits), so keeping today's waypoints never loses one that is needed later. There are at most 40 of these small
files.

**Crashes.** No file in the plan is needed, so any part of the plan may be carried out. Referrers are deleted before
what they refer to (manifests, newest first, then indexes, then files), so that a released checkpoint is complete as
long as its manifest exists. Files whose referrer is deleted are found again by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tidemill.checkpoint.model import Manifest, Slot
from tidemill.checkpoint.names import (
    lineage_slot,
    manifest_name,
    parse_delta,
    parse_manifest,
    parse_snapshot,
    parse_snapshot_id,
    snapshot_index_name,
)
from tidemill.checkpoint.snapshot_index import SnapshotIndex
from tidemill.errors import FencedError

#: 2**40 epochs last 3 000 years at ten per second.
SLOT_BITS = 40


def waypoints(slot: int) -> frozenset[Slot]:
    """The slots through which ``slot`` is found, including ``slot`` itself."""
    result = set()
    while slot > 0:
        result.add(Slot(slot))
        slot &= slot - 1
    return frozenset(result)


def find_last(start: int, exists: Callable[[int], bool]) -> int:
    """The last slot of the log, provided that all its waypoints exist. At most 40 probes.

    ``start`` is any slot that exists, or 0.

    Works from the highest bit down: a slot with the bits determined so far and one more bit set exists exactly if the
    last slot is not before it.
    """
    last = start
    for bit in reversed(range(SLOT_BITS)):
        if not last >> bit & 1:
            candidate = (last >> bit | 1) << bit
            if exists(candidate):
                last = candidate
    return last


def kept_slots(head: Manifest, *, spare: bool = True) -> tuple[Slot, ...]:
    """The slots that must stay restorable, newest first: the head, the one before it, the retained checkpoints.

    Without ``spare`` the one before the head need not stay: it belongs to a history of the job that was discarded on
    purpose.
    """
    before = [Slot(head.slot - 1)] if spare and head.slot > 1 else []
    return tuple(sorted({head.slot, *before, *head.checkpoints}, reverse=True))


def names_referenced(
    manifest: Manifest, load_manifest: Callable[[Slot], Manifest], load_snapshot: Callable[[str], SnapshotIndex]
) -> frozenset[str]:
    """Every name that must exist for ``manifest`` to be restored, including its own.

    Raises whatever the loaders raise: if references cannot be determined, nothing may be deleted.
    """
    names = {manifest_name(manifest.slot)}
    names.update(piece.file for piece in manifest.pieces if piece.file is not None)
    if manifest.operators_slot is not None:
        names.add(manifest_name(manifest.operators_slot))
    for run in manifest.runs:
        if run.slot is not None:
            names.add(manifest_name(run.slot))
            pieces = load_manifest(run.slot).pieces if run.slot != manifest.slot else ()
        else:
            snapshot = run.snapshot or ""
            names.add(snapshot_index_name(snapshot))
            pieces = load_snapshot(snapshot).pieces
        names.update(piece.file for piece in pieces if piece.file is not None)
    return frozenset(names)


def check_owner(head: Manifest, existing: Iterable[str]) -> None:
    """Raise :class:`FencedError` if a manifest after ``head`` exists: another driver owns the job and its files."""
    for name in existing:
        if (parse_manifest(name) or 0) > head.slot:
            raise FencedError(f"{name} is newer than this driver's head in slot {head.slot}: another driver took over")


def doubtful_slots(head: Manifest, existing: Iterable[str]) -> tuple[Slot, ...]:
    """The slots whose manifests must be read to determine whether they are fences: those before the head's own lineage.

    In its own lineage the first slot is the takeover record, and all others are epochs.
    """
    own = lineage_slot(head.lineage) or head.slot
    slots = {slot for name in existing if (slot := parse_manifest(name)) is not None and slot < own}
    return tuple(sorted(slots - waypoints(head.slot)))


def plan_retention(
    head: Manifest,
    referenced: Collection[str],
    existing: Iterable[str],
    in_progress: Collection[str],
    fences: Collection[Slot],
) -> tuple[str, ...]:
    """The names to delete, in the order in which to delete them.

    ``head`` is the newest manifest of the driver's own lineage, ``referenced`` the union of :func:`names_referenced`
    over :func:`kept_slots`, ``existing`` a list of names, ``in_progress`` the ids of snapshots that are being written
    or that no manifest refers to yet. To be safe against concurrent changes, collect these in the order existing,
    in_progress, head.

    ``fences`` are those of the :func:`doubtful_slots` whose manifest is a takeover record or cannot be read.

    Raises :class:`FencedError` as :func:`check_owner` does.
    """
    existing = set(existing)
    check_owner(head, existing)
    path = {*waypoints(head.slot), lineage_slot(head.lineage)}
    manifests: list[str] = []
    indexes: list[str] = []
    files: list[str] = []
    for name in sorted(existing, reverse=True):
        slot = parse_manifest(name)
        if name in referenced:
            continue
        if slot is not None:
            if slot not in path and slot not in fences:
                manifests.append(name)
        elif delta := parse_delta(name):
            committed = delta.lineage == head.lineage and delta.epoch <= head.epoch
            if committed or _older(delta.lineage, head):
                files.append(name)
        elif (snapshot := parse_snapshot(name)) and snapshot not in in_progress:
            owner = parse_snapshot_id(snapshot)
            if owner and (owner.lineage == head.lineage or _older(owner.lineage, head)):
                (indexes if name == snapshot_index_name(snapshot) else files).append(name)
    return (*manifests, *indexes, *files)


def _older(lineage: str, head: Manifest) -> bool:
    theirs, ours = lineage_slot(lineage), lineage_slot(head.lineage)
    return theirs is not None and ours is not None and theirs < ours
