"""The conclusions a driver draws from the log of manifests. Pure functions: facts in, decision out.

A driver owns a job from its own takeover record until the takeover record of another driver. The driver that creates a
slot decides what follows it. The facts are what :class:`~tidemill.checkpoint.log.ManifestLog` observes: which manifest
occupies the slot that the driver tried to create (``winner``, None if the driver's own manifest does), and which slot
is the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.errors import CheckpointError, FencedError

__all__ = [
    "check_follows",
    "check_still_ours",
    "publish_outcome",
    "takeover_outcome",
    "takeover_record",
]


def takeover_record(
    basis: Manifest | None,
    *,
    job_id: str,
    slot: Slot,
    lineage: Lineage,
    operators: dict[str, Any],
    begins: Mapping[str, str] | None = None,
) -> Manifest:
    """The record with which a driver claims a job: a copy of ``basis``, adapted to the new lineage.

    It has no attempts (a worker never continues with the in-memory state of another lineage), no pieces of its own (the
    runs refer to them), and the full description of the operators. Without a basis, the job starts with empty state.

    With ``begins``, the record starts a new history and stores ``begins`` in it.
    """
    if basis is None:
        basis = Manifest(kind="takeover", job_id=job_id, lineage=lineage, slot=slot, epoch=Epoch(0))
    if begins is not None:
        basis = replace(basis, history={**begins, "lineage": lineage})
    return replace(
        basis,
        kind="takeover",
        job_id=job_id,
        lineage=lineage,
        slot=slot,
        rerun=0,
        attempts={},
        pieces=(),
        operators=operators,
        operators_slot=None,
    )


def check_still_ours(job_id: str, after: str | None, owner: Manifest | None) -> None:
    """Check that a driver that had lineage ``after`` may claim the job again: only if that is still the last lineage.

    Raises :class:`FencedError` if ``owner``, the last manifest, belongs to another lineage.
    """
    if after is not None and owner is not None and owner.lineage != after:
        raise FencedError(
            f"job {job_id} was taken over by lineage {owner.lineage} (slot {owner.slot}); this driver, lineage "
            f"{after}, does not start it again"
        )


def takeover_outcome(job_id: str, winner: Manifest | None, *, last: bool, beyond: Manifest | None) -> bool:
    """Whether a takeover record is valid; False means to start over from the manifest that is the last one now.

    ``winner`` is the manifest that occupies the slot if it is not the record. ``last`` is whether the record's slot is
    the last one, and ``beyond`` is the manifest in the slot after it. A record that is not the last one was created in
    a gap: retention had deleted an epoch that was committed in that slot in the meantime. Or another driver has already
    taken over.

    Raises :class:`FencedError` if another driver claimed the job: of two drivers that start at the same time, one
    stops.
    """
    other = winner if winner is not None else beyond
    if other is not None and other.kind == "takeover":
        raise FencedError(
            f"another driver claimed job {job_id} at the same moment "
            f"(lineage {other.lineage}, slot {other.slot}); this driver stops"
        )
    return winner is None and last


def check_follows(head: Manifest, manifest: Manifest) -> None:
    """Raise :class:`CheckpointError` unless ``manifest`` is the next one after ``head`` in its lineage."""
    if (manifest.slot, manifest.lineage, manifest.job_id) != (head.slot + 1, head.lineage, head.job_id):
        raise CheckpointError(
            f"a manifest for slot {manifest.slot} of lineage {manifest.lineage} cannot follow slot {head.slot} "
            f"of lineage {head.lineage}"
        )


def publish_outcome(head: Manifest, manifest: Manifest, winner: Manifest | None) -> str | None:
    """None if the epoch is committed, else the reason why this driver is fenced off: another lineage has the slot.

    Raises :class:`CheckpointError` if the slot contains another execution of the same epoch by this same driver.
    """
    if winner is None:
        return None
    if winner.lineage == head.lineage:
        raise CheckpointError(
            f"epoch {winner.epoch} was already committed by this driver as rerun {winner.rerun}, in a publish whose "
            f"outcome was unknown; rerun {manifest.rerun} is void, open a new lineage to resume from what was committed"
        )
    return (
        f"job {head.job_id} was taken over by lineage {winner.lineage} (slot {winner.slot}); this driver, lineage "
        f"{head.lineage}, stops and did not commit epoch {manifest.epoch}"
    )
