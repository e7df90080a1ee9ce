"""Builds the Spark checkpoint location of a lineage from that of an earlier one.

Spark resumes a query from the contents of its location, without checking them. Only files that are known to be complete
are therefore copied:

1. The entries of the sources' logs that the manifest records must exist as recorded. Otherwise the job does not start.
2. Entries that no manifest records belong to a batch that was started but not committed. They are copied if Spark's own
   checksum confirms them, so that the batch has the same boundaries as before. If the boundaries were computed again
   each time, the batch of a job that fails repeatedly would grow with each execution. Entries that are not confirmed
   are not copied, and Spark computes the batch again: after a power failure they may be incomplete, and nothing that is
   committed depends on them.
3. The manifest contains the end of the last batch. It is also logged for the batch before, so that Spark has nothing to
   do if it replays the batch. No commit is forged: if Spark had not logged the commit, the batch is replayed, and
   skipped because of its manifest.
4. Until a batch is committed, no manifest records the starting positions of sources. Spark's checksum must confirm
   them: a source that starts at the end of a topic would otherwise start at a different position.

``metadata`` is written last, when everything else is durable: a location without it was never complete.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidemill.checkpoint.names import SPARK
from tidemill.checkpoint.spark_logs import (
    FILE_SOURCE,
    HEADER_LINES,
    NO_OFFSET,
    WAYS_OUT,
    LogEntry,
    entry_id,
    needed,
)
from tidemill.checkpoint.storage.local import sync_path
from tidemill.errors import CorruptFileError
from tidemill.runtime.start.spark_positions import SourceNumbers
from tidemill.spark.locations.spark_checksums import checksum_path, is_intact

log = logging.getLogger(__name__)

METADATA: Final = "metadata"


@dataclass(frozen=True)
class Origin:
    """The location that a lineage resumes from.

    ``recorded`` contains the log entries that the manifest records, or None if it records none. In a ``sealed``
    location, files without a Spark checksum are complete, because they come from a storage or a savepoint.
    """

    location: Path
    recorded: Mapping[str, LogEntry] | None = None
    sealed: bool = False


def build_location(
    origin: Origin,
    new: Path,
    positions: Mapping[str, Any] | None,
    numbers: SourceNumbers,
    moves: Mapping[int, int] | None = None,
    *,
    durable: bool = True,
) -> None:
    """Build the location ``new`` for a query whose sources have these numbers.

    ``positions`` are the positions from which its sources resume, or None if no batch is committed. ``moves`` maps new
    to old numbers of the sources' logs if some have changed. The boundaries of an uncommitted batch are then discarded,
    because they belong to other sources. Raises :class:`CorruptFileError` for a damaged log; the new location is then
    incomplete.
    """
    builder = _Builder(origin, new, positions, numbers, durable)
    builder.build(moves)


class _Builder:
    def __init__(
        self, origin: Origin, new: Path, positions: Mapping[str, Any] | None, numbers: SourceNumbers, durable: bool
    ) -> None:
        self._origin = origin
        self._old = origin.location
        self._new = new
        self._positions = positions
        self._numbers = numbers
        self._durable = durable
        self._kinds = {number: kind for sources in numbers.values() for _, number, kind in sources}
        self._newest: dict[int, int] = {}
        self._left_behind = False
        self._written: list[Path] = []

    def build(self, moves: Mapping[int, int] | None) -> None:
        last = -1 if self._positions is None else int(self._positions["batch_id"])
        # Read before the logs that it refers to, so that these are at least as new, even if the predecessor still runs.
        cut = self._read(self._old / "offsets" / str(last + 1)) if moves is None else None
        for number, old_number in self._folders(moves):
            self._copy_log(number, old_number)
        if self._positions is not None:
            offsets = self._positions["offsets"].encode()
            for batch in range(max(0, last - 1), last + 1):
                self._write(self._new / "offsets" / str(batch), offsets)
            if moves is None:
                self._copy_commit(last)
        if cut is not None:
            self._copy_cut(last + 1, cut)
        self._sync()
        self._write(self._new / METADATA, self._metadata(moves))
        self._sync()
        if self._durable:
            for folder in (self._new, self._new.parent, self._new.parent.parent):
                sync_path(folder)

    def _folders(self, moves: Mapping[int, int] | None) -> list[tuple[int, int]]:
        if moves is not None:
            return sorted(moves.items())
        with contextlib.suppress(FileNotFoundError):
            found = {int(entry.name) for entry in (self._old / "sources").iterdir() if entry.name.isdigit()}
            found |= {int(name.partition("/")[0]) for name in self._origin.recorded or ()}
            return [(number, number) for number in sorted(found)]
        return sorted({(int(name.partition("/")[0]),) * 2 for name in self._origin.recorded or ()})

    # --- the sources' logs

    def _copy_log(self, number: int, old_number: int) -> None:
        old, new = self._old / "sources" / str(old_number), self._new / "sources" / str(number)
        recorded = self._recorded(old_number)
        for name, entry in sorted((recorded or {}).items()):
            data = self._read(old / name)
            entry.check(data, f"{SPARK}{self._old.name}")
            self._write(new / name, data or b"")
        first = min((entry_id(name) or 0 for name in needed(recorded or ())), default=0)
        others = [name for name in self._names(old) if name not in (recorded or ())]
        entries = {name: found for name in others if (found := entry_id(name)) is not None and found >= first}
        for name in sorted(entries, key=lambda name: entries[name]):
            if not self._copy_begun(old / name, new / name, number, recorded is not None):
                break
        for name in others:
            if entry_id(name) is None and (data := self._read(old / name)) is not None:
                self._write(new / name, data)
        kept = [found for path in self._written if path.parent == new and (found := entry_id(path.name)) is not None]
        self._newest[number] = max(kept, default=-1)

    def _recorded(self, number: int) -> dict[str, LogEntry] | None:
        if self._origin.recorded is None:
            return None
        folder = f"{number}/"
        return {
            name.removeprefix(folder): entry for name, entry in self._origin.recorded.items() if name.startswith(folder)
        }

    def _copy_begun(self, old: Path, new: Path, number: int, others_recorded: bool) -> bool:
        """Copy an entry that no manifest records. Returns False if it cannot be trusted and is not copied."""
        data = self._read(old)
        if data is None:
            return True  # Spark has compacted it in the meantime
        intact = is_intact(old, data)
        # Manifests of older versions do not record their logs. Such logs are trusted, as they were in those versions.
        trusted = self._origin.sealed or (not others_recorded and self._positions is not None)
        if intact or (intact is None and trusted):
            self._write(new, data)
            if intact:
                self._copy_checksum(old, new)
            return True
        name = f"{SPARK}{self._old.name}/sources/{old.parent.name}/{old.name}"
        if others_recorded or (self._positions is None and self._kinds.get(number) == FILE_SOURCE):
            log.warning("%s belongs to an uncommitted batch and is incomplete: Spark computes the batch again", name)
            self._left_behind = True
            return False
        raise CorruptFileError(f"{name} is corrupt: it does not match its checksum file. {WAYS_OUT}")

    # --- batches

    def _copy_cut(self, batch: int, cut: bytes) -> None:
        """Copy the boundaries of the next batch, if they and the logs they refer to are complete."""
        path = self._old / "offsets" / str(batch)
        intact = is_intact(path, cut)
        if (intact or (intact is None and self._origin.sealed)) and not self._left_behind and self._fits(cut):
            self._write(self._new / "offsets" / str(batch), cut)
            if intact:
                self._copy_checksum(path, self._new / "offsets" / str(batch))
        else:
            log.warning("%s%s/offsets/%d is incomplete: Spark computes the batch again", SPARK, self._old.name, batch)

    def _fits(self, cut: bytes) -> bool:
        lines = cut.decode(errors="replace").split("\n")[HEADER_LINES:]
        if len(lines) != sum(map(len, self._numbers.values())):
            return False
        for sources in self._numbers.values():
            for line, number, kind in sources:
                if kind == FILE_SOURCE and lines[line] != NO_OFFSET:
                    try:
                        if int(json.loads(lines[line])["logOffset"]) > self._newest.get(number, -1):
                            return False
                    except (ValueError, KeyError, TypeError):
                        return False
        return True

    def _copy_commit(self, batch: int) -> None:
        """Copy Spark's commit of a batch. Its contents only matter for stateful queries, which are not supported."""
        data = self._read(self._old / "commits" / str(batch)) or b""
        version, _, rest = data.partition(b"\n")
        with contextlib.suppress(ValueError):
            if version == b"v1" and isinstance(json.loads(rest), dict):
                self._write(self._new / "commits" / str(batch), data)

    def _metadata(self, moves: Mapping[int, int] | None) -> bytes:
        """Return the query id, which stays the same as long as the sources do."""
        found = self._read(self._old / METADATA) if moves is None else None
        with contextlib.suppress(ValueError):
            if found is not None and isinstance(json.loads(found)["id"], str):
                return found
        return json.dumps({"id": str(uuid.uuid4())}).encode()

    # --- files

    def _names(self, folder: Path) -> list[str]:
        """Return the names of all files below a folder, without checksums and unfinished files."""
        return sorted(
            os.path.relpath(os.path.join(place, name), folder)  # noqa: PTH118
            for place, _, names in os.walk(folder)
            for name in names
            if not name.startswith(".")
        )

    def _read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._written.append(path)

    def _copy_checksum(self, old: Path, new: Path) -> None:
        if (data := self._read(checksum_path(old))) is not None:
            self._write(checksum_path(new), data)

    def _sync(self) -> None:
        """Make all files written so far durable, with their folders inside the location."""
        if not self._durable:
            return
        for path in (*self._written, *sorted(set(self._parents()))):
            sync_path(path)

    def _parents(self) -> Iterator[Path]:
        for path in self._written:
            for parent in path.parents:
                if not parent.is_relative_to(self._new):
                    break
                yield parent
