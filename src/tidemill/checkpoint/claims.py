"""What a driver concludes from what it finds in the log of manifests. Pure: facts in, decision out.

A driver owns a job from its takeover record on until another driver's; who creates a slot decides what follows it. The
facts are what :class:`~tidemill.checkpoint.log.ManifestLog` observes: which manifest holds a slot that was to be
created (``winner``, None if it is one's own), which slot is the last one.
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
    """The record with which a driver claims a job: all that ``basis`` says.

    It has no attempts (no worker goes on from the memory of another lineage), no pieces of its own (the runs name
    them), and the operators' description in full. Without a basis the job begins with nothing.

    With ``begins`` a new history begins with it, which records that.
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
        run=0,
        attempts={},
        pieces=(),
        operators=operators,
        operators_slot=None,
    )


def check_still_ours(job_id: str, after: str | None, owner: Manifest | None) -> None:
    """A driver that had lineage ``after`` may claim the job again only if that is the last one.

    Raises :class:`FencedError` if ``owner``, the last manifest, is of another.
    """
    if after is not None and owner is not None and owner.lineage != after:
        raise FencedError(
            f"job {job_id} was taken over by lineage {owner.lineage} (slot {owner.slot}); this driver, lineage "
            f"{after}, does not start it again"
        )


def takeover_outcome(job_id: str, winner: Manifest | None, *, last: bool, beyond: Manifest | None) -> bool:
    """Whether a takeover record counts; False means to begin again from what is the last manifest now.

    ``winner`` is what holds the slot if it is not the record. ``last`` tells whether the record's slot is the last one,
    ``beyond`` what is in the slot after it. A record that is not the last one was created in a gap: retention had
    deleted an epoch that was committed there meanwhile. Or another driver has taken over already.

    Raises :class:`FencedError` if another driver claimed the job: of two that start at once, one stops.
    """
    other = winner if winner is not None else beyond
    if other is not None and other.kind == "takeover":
        raise FencedError(
            f"another driver claimed job {job_id} at the same moment "
            f"(lineage {other.lineage}, slot {other.slot}); this one stops"
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
    """None if the epoch is committed, else why this driver is fenced off: another lineage holds the slot.

    Raises :class:`CheckpointError` if the slot holds another run of the same epoch by this very driver.
    """
    if winner is None:
        return None
    if winner.lineage == head.lineage:
        raise CheckpointError(
            f"epoch {winner.epoch} was already committed by this driver as run {winner.run}, in a publish whose "
            f"outcome was unknown; run {manifest.run} is void, open a new lineage to go on from what was committed"
        )
    return (
        f"job {head.job_id} was taken over by lineage {winner.lineage} (slot {winner.slot}); this driver, lineage "
        f"{head.lineage}, stops and did not commit epoch {manifest.epoch}"
    )
