"""The disk of a run: it is small, so that it can be filled, and its unreferenced files can be damaged."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.names import SNAPSHOTS, STATE, parse_delta, parse_snapshot, parse_snapshot_id
from tidemill.checkpoint.retention import kept_slots, names_referenced
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.errors import CheckpointError

_MEGABYTES: Final = 96


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a small file system on the folder, if permitted, and yield whether it was mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_MEGABYTES}m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the folder's file system while the block runs."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(b"\0" * 65536)
        yield
    finally:
        filler.unlink(missing_ok=True)


def damage_garbage(directory: Path, job_id: str, dice: random.Random) -> str | None:
    """Corrupt, truncate or delete a file that no manifest refers to, now or later.

    These are unreferenced deltas of committed epochs, and deltas and snapshots of earlier lineages. Returns a
    description of what was done, or None if there was no such file.
    """
    storage = LocalStorage(directory, durable=False)
    log = ManifestLog(storage, job_id)
    try:
        existing = [*storage.list(STATE), *storage.list(SNAPSHOTS)]
        head = log.read_head()
        if head is None:
            return None
        needed: set[str] = set()
        for slot in kept_slots(head):
            needed |= names_referenced(log.read(slot), log.read, lambda name: read_snapshot_index(storage, name))
    except CheckpointError:
        return None  # the job has changed the files in the meantime
    garbage = []
    for name in existing:
        delta, snapshot = parse_delta(name), parse_snapshot_id(parse_snapshot(name) or "")
        owner = delta or snapshot
        over = owner is not None and owner.lineage < head.lineage
        committed = delta is not None and delta.epoch <= head.epoch
        if name not in needed and (over or committed):
            garbage.append(name)
    if not garbage:
        return None
    name = dice.choice(garbage)
    path, what = directory / name, dice.choice(("corrupted", "truncated", "deleted"))
    try:
        if what == "deleted":
            path.unlink()
        elif what == "truncated":
            with path.open("r+b") as stream:
                stream.truncate(dice.randrange(max(1, path.stat().st_size)))
        else:
            with path.open("r+b") as stream:
                stream.seek(dice.randrange(max(1, path.stat().st_size)))
                stream.write(dice.randbytes(8))
    except FileNotFoundError:
        return None
    return f"{what} {name}"
