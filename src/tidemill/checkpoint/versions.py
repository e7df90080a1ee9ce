"""What a worker that has an older committed version of the state must read to have a newer one."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.checkpoint.model import Manifest, RunRef
from tidemill.errors import CheckpointError
from tidemill.state.backend import StateVersion


def runs_after(head: Manifest, version: StateVersion, read: Callable[[int], Manifest]) -> tuple[RunRef, ...] | None:
    """The runs of ``head`` that came after ``version``, oldest first; None if ``head`` did not come from ``version``,
    or a snapshot holds changes from both before and after it.

    Within a lineage every manifest comes from those before it. A version of another lineage must be one of the runs, by
    slot and lineage: ``read`` reads the manifest in a slot.
    """
    if version.lineage != head.lineage and not _is_run(head, version, read):
        return None
    if version.slot > head.slot or version.epoch > head.epoch:
        return None
    later = []
    begun = 0  # the epoch after which a snapshot begins
    for run in head.runs:
        if run.through > version.epoch:
            if run.snapshot is not None and begun < version.epoch:
                return None
            later.append(run)
        begun = run.through
    return tuple(later)


def _is_run(head: Manifest, version: StateVersion, read: Callable[[int], Manifest]) -> bool:
    if all(run.slot != version.slot for run in head.runs):
        return False
    try:
        return read(version.slot).lineage == version.lineage
    except CheckpointError:
        return False
