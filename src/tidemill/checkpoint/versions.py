"""Determines what a worker that has an older committed version of the state must read to get to a newer one.

A worker may build upon the state it finds on its disk if, and only if, the following conditions are met. Otherwise it
starts fresh and reads everything, which is always correct.

1. *The state it found is that of a version.* The rows on disk are exactly those of one committed manifest: see
   :mod:`tidemill.state.rocksdb.store`. They are of the same operator and key groups, and were written by the same
   attempt of the same program, so that keys, types and encodings are the current ones
   (:mod:`tidemill.state.rocksdb.directories`).
2. *The head descends from that version.* Within a lineage every manifest descends from those before it. A version of
   another lineage must be one of the head's runs. So a job that was reset to an older checkpoint, or forked, does not
   build upon the state it abandoned.
3. *The version contains each run of the head either completely or not at all.* An epoch's run is one manifest's
   changes. A snapshot contains the changes of several epochs: it counts as later only if it begins where the version
   ends, or after that. A snapshot that begins earlier has lost the order of the changes it merged. It may also have
   lost deletions: a merge with no older run below it drops them. So a snapshot that is the head's first run is only
   ever loaded into an empty store.

Given condition 3, the runs after the version, applied in order, are exactly the changes between it and the head,
including deletions: a merge of runs with older ones below keeps them. And the state of the version with these changes
applied is the state of the head.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemill.checkpoint.model import Manifest, RunRef
from tidemill.errors import CheckpointError
from tidemill.state.keyed.backend import StateVersion


def runs_after(head: Manifest, version: StateVersion, read: Callable[[int], Manifest]) -> tuple[RunRef, ...] | None:
    """The runs of ``head`` that are later than ``version``, oldest first.

    Returns None if ``head`` does not descend from ``version``, or if a snapshot contains changes from both before and
    after it. Within a lineage every manifest descends from those before it. A version of another lineage must be one of
    the runs, by slot and lineage: ``read`` reads the manifest in a slot.
    """
    if version.lineage != head.lineage and not _is_run(head, version, read):
        return None
    if version.slot > head.slot or version.epoch > head.epoch:
        return None
    later = []
    begun = -1  # the epoch after which a run begins; nothing precedes the first run, not even epoch 0
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
