"""Decides which runs to merge into a snapshot, and what the run list looks like afterwards. Pure functions.

A run's *tier* is the order of magnitude of its size: 0 up to 64 KiB, then one more per factor ``fan_in``. A run that is
followed by a larger one counts as being in the larger one's tier; otherwise small runs between large ones would never
be merged, and would pile up. So tiers never rise from the oldest run to the newest, and each tier is one contiguous
range of the list. A range of ``fan_in`` runs or more is merged, the newest such range first. When nothing is left to
merge, it follows that

- there are fewer than ``fan_in`` runs per tier: O(log n) runs, and
- a byte is rewritten at most ``fan_in`` times per tier, once where epochs are about equally large: O(log n) writes.

State that is overwritten does not grow its tier: eight runs of the same keys merge into one run of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidemill.checkpoint.model import RunRef
from tidemill.errors import CheckpointError

#: Runs up to this size are in the same tier: they are inline in manifests (an inline delta has at most about 64 KB).
SMALLEST_TIER: Final = 64 * 1024


def tier(size: int, fan_in: int = 8) -> int:
    """The tier of a run of ``size`` bytes."""
    result = 0
    limit = SMALLEST_TIER
    while size > limit:
        limit *= fan_in
        result += 1
    return result


def plan_compaction(runs: Sequence[RunRef], fan_in: int = 8) -> list[RunRef] | None:
    """The adjacent runs to merge next, oldest first, or None if there is nothing to do.

    Deterministic. If the result begins with ``runs[0]``, no older run lies below it, and the merge may drop tombstones.
    """
    if fan_in < 2:
        raise CheckpointError(f"a compaction merges at least 2 runs, not {fan_in}")
    end = len(runs)
    while end > 0:
        highest = tier(runs[end - 1].bytes, fan_in)
        begin = end - 1
        while begin > 0 and tier(runs[begin - 1].bytes, fan_in) <= highest:
            begin -= 1
        if end - begin >= fan_in:
            return list(runs[begin:end])
        end = begin
    return None


def apply_compaction(runs: Sequence[RunRef], merged: Sequence[RunRef], result: RunRef) -> tuple[RunRef, ...]:
    """The run list with ``merged`` replaced by ``result``; runs added on either side in the meantime stay.

    Raises :class:`CheckpointError` if ``merged`` is no longer a contiguous range of ``runs``: the result is then
    useless.
    """
    if not merged or result.snapshot is None or result.through != merged[-1].through:
        raise CheckpointError("the result of a compaction must be a snapshot through the last epoch of what was merged")
    current = tuple(runs)
    stretch = tuple(merged)
    for begin in range(len(current) - len(stretch) + 1):
        if current[begin : begin + len(stretch)] == stretch:
            return (*current[:begin], result, *current[begin + len(stretch) :])
    raise CheckpointError(
        f"snapshot {result.snapshot} replaces runs that are no longer part of the state; drop it and plan again"
    )
