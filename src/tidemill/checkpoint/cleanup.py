"""Retention, carried out: deletes what no kept manifest refers to. The decisions are in ``retention``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

from tidemill.checkpoint.local_storage import LocalStorage
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.names import MANIFESTS, SNAPSHOTS, STATE
from tidemill.checkpoint.retention import kept_slots, names_referenced, plan_retention
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage_api import NotFoundError, Storage
from tidemill.errors import CorruptFileError
from tidemill.faults import reach


def collect_garbage(storage: Storage, log: ManifestLog, in_progress: Callable[[], Collection[str]]) -> tuple[str, ...]:
    """Delete what the driver that owns ``log`` no longer needs; returns the names.

    1. List all names. 2. Ask for the snapshots in progress: from before their first file until a manifest that names
    them is published. 3. Take the head. In this order, what is listed is either protected or known to the head.
    4. Gather what the kept manifests refer to. 5. Delete the rest. May run beside epochs and be killed at any moment.

    Raises :class:`~tidemill.errors.FencedError`, having deleted nothing, if another driver took over, and
    :class:`~tidemill.errors.CorruptFileError`, having deleted nothing, if the head or a retained checkpoint cannot be
    read.
    """
    existing = [name for prefix in (MANIFESTS, SNAPSHOTS, STATE) for name in storage.list(prefix)]  # 1
    protected = frozenset(in_progress())  # 2
    head = log.head  # 3
    read = functools.cache(log.read)  # the kept manifests share most of their runs
    read_index = functools.cache(lambda snapshot: read_snapshot_index(storage, snapshot))
    referenced: set[str] = set()
    for slot in kept_slots(head):  # 4
        spare = slot == head.slot - 1 and slot not in head.checkpoints
        try:
            manifest = head if slot == head.slot else read(slot)
            referenced |= names_referenced(manifest, read, read_index)
        except (CorruptFileError, NotFoundError):
            if not spare:  # the manifest before the head is a spare: kept as long as it is whole
                raise
    names = plan_retention(head, referenced, existing, protected)
    if names:
        reach("retention.delete")
        storage.delete(names)  # 5
    if isinstance(storage, LocalStorage):
        storage.sweep_temporary()
    return names
