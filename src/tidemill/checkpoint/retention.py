"""What a job's directory must keep, and what may go. Pure decisions; ``cleanup`` carries them out.

Kept is every name that a *kept manifest* refers to, directly or through its runs. Kept manifests are the head, the one
before it (so that there is something to offer if the head is damaged), and the retained checkpoints.

Of the rest, a manifest may go if it is older than the head and not a *waypoint*; a delta or a snapshot, if nobody can
name it any more: it is of an older lineage, or of this one and of a committed epoch (not the one now running), or, for
a snapshot, of no compaction in progress. What belongs to a newer lineage is not ours to judge, and what has a name we
did not make is never touched.

**Fences** are the takeover records, and stay for ever. A driver that was taken over would create the slot in which the
takeover record is; were it gone, the zombie would succeed there and think it had committed. One small file per start of
the job is the price of needing no clock. A driver that is about to claim the job may sleep on an epoch's slot that is
deleted meanwhile: it looks, after its claim, whether there is anything later (see ``log``).

**Waypoints** let a driver find the head without trusting a list. They are the slots that the head's number leads
through when its lowest set bits are cleared one after the other: 13 = 0b1101 has 13, 12, 8. The head is found bit by
bit with ``exists``. A waypoint of a later head that exists today is a waypoint of today's head (both share the bits
above), so keeping today's never loses one that is needed later. They are at most 40 small files.

**Crashes.** Nothing in the plan is needed, so any part of it may be carried out. Referrers go before what they refer to
(manifests, newest first, then indexes, then files), so that what is left of a let-go checkpoint is whole as long as its
manifest is there; files whose referrer is gone are found again by name.
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

#: 2**40 epochs are 3 000 years at ten per second.
SLOT_BITS = 40


def waypoints(slot: int) -> frozenset[Slot]:
    """The slots from which ``slot`` is found, itself included."""
    result = set()
    while slot > 0:
        result.add(Slot(slot))
        slot &= slot - 1
    return frozenset(result)


def find_last(start: int, exists: Callable[[int], bool]) -> int:
    """The last slot of the log, if all its waypoints exist; ``start`` is any slot that exists, or 0. At most 40 probes.

    Works from the highest bit down: a slot with the bits found so far and one more set exists exactly if the last slot
    is not before it.
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

    Without ``spare`` the one before the head need not stay: it belongs to a life of the job that was ended on purpose.
    """
    before = [Slot(head.slot - 1)] if spare and head.slot > 1 else []
    return tuple(sorted({head.slot, *before, *head.checkpoints}, reverse=True))


def names_referenced(
    manifest: Manifest, load_manifest: Callable[[Slot], Manifest], load_snapshot: Callable[[str], SnapshotIndex]
) -> frozenset[str]:
    """Every name that must exist for ``manifest`` to be restored, its own included.

    Raises what the loaders raise: where references cannot be known, nothing may be deleted.
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
    """Raise :class:`FencedError` if there is a manifest after ``head``: another driver owns the job, and its files."""
    for name in existing:
        if (parse_manifest(name) or 0) > head.slot:
            raise FencedError(f"{name} is newer than this driver's head in slot {head.slot}: another driver took over")


def doubtful_slots(head: Manifest, existing: Iterable[str]) -> tuple[Slot, ...]:
    """The slots of which only a look at the manifest tells whether it is a fence: those before the head's own lineage.

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
    over :func:`kept_slots`, ``existing`` a list of names, ``in_progress`` the ids of snapshots that are being made or
    are not named by a manifest yet. To be safe against what happens meanwhile, gather in this order: existing,
    in_progress, head.

    ``fences`` are the slots, of those in :func:`doubtful_slots`, whose manifest is a takeover record or cannot be read.

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
