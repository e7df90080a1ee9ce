"""Building the Spark checkpoint location of a lineage from that of an earlier one.

Spark resumes a query from what it finds in its location, and trusts it. So only what is known to be whole is copied:

1. What the manifest records of the sources' logs must be there as recorded, or nothing starts.
2. Entries that no manifest records are of a batch that was begun and not committed. They are copied if Spark's own
   checksum confirms them, so that the batch is cut where it was cut before: were it cut anew each time, a job that
   fails again and again would get a larger batch each time. Otherwise they are left behind, and Spark cuts the batch
   anew: after a power failure they may be torn, and nothing committed depends on them.
3. Where the last batch ended, the manifest says. It is logged for the batch before as well, so that Spark has nothing
   to do where it replays the batch. No commit is forged: where Spark had not logged it, the batch is replayed, and
   skipped by its manifest.
4. As long as no batch is committed, no manifest records where sources began. Spark's checksum must confirm it: a source
   that begins at the end of a topic would begin elsewhere.

``metadata`` is written last, when all else is durable: a location without it was never complete.
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
from tidemill.spark.locations.spark_checksums import checksum_path, is_intact

log = logging.getLogger(__name__)

METADATA: Final = "metadata"

#: By uid of the source operator, what it reads: the line of the offset log, the folder of the source's own log, and the
#: kind of source it is.
Layout = dict[str, list[list[Any]]]


@dataclass(frozen=True)
class Origin:
    """The location that a lineage resumes from.

    ``recorded`` is what the manifest records of its logs, None if it has no record. In a ``sealed`` one files without
    a checksum of Spark's are whole: they come from a storage or a savepoint.
    """

    location: Path
    recorded: Mapping[str, LogEntry] | None = None
    sealed: bool = False


def build_location(
    origin: Origin,
    new: Path,
    positions: Mapping[str, Any] | None,
    layout: Layout,
    moves: Mapping[int, int] | None = None,
    *,
    durable: bool = True,
) -> None:
    """Build the location ``new`` for a query with this layout.

    ``positions`` are where its sources go on, None if no batch is committed. ``moves`` has the old numbers of the
    sources' logs by their new ones, where some have changed: how a batch had been cut is then forgotten, since it was
    cut for other sources. Raises :class:`CorruptFileError`, having left no complete location.
    """
    builder = _Builder(origin, new, positions, layout, durable)
    builder.build(moves)


class _Builder:
    def __init__(
        self, origin: Origin, new: Path, positions: Mapping[str, Any] | None, layout: Layout, durable: bool
    ) -> None:
        self._origin = origin
        self._old = origin.location
        self._new = new
        self._positions = positions
        self._layout = layout
        self._durable = durable
        self._kinds = {number: kind for sources in layout.values() for _, number, kind in sources}
        self._newest: dict[int, int] = {}
        self._left_behind = False
        self._written: list[Path] = []

    def build(self, moves: Mapping[int, int] | None) -> None:
        last = -1 if self._positions is None else int(self._positions["batch_id"])
        # Read before the logs that it refers to, so that these are at least as new, also if the predecessor still runs.
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
        """Copy an entry that no manifest records; False if it cannot be trusted, and is left behind."""
        data = self._read(old)
        if data is None:
            return True  # Spark has merged it meanwhile
        intact = is_intact(old, data)
        # A manifest of before records were kept says nothing about its logs; they are taken at their word, as then.
        trusted = self._origin.sealed or (not others_recorded and self._positions is not None)
        if intact or (intact is None and trusted):
            self._write(new, data)
            if intact:
                self._copy_checksum(old, new)
            return True
        name = f"{SPARK}{self._old.name}/sources/{old.parent.name}/{old.name}"
        if others_recorded or (self._positions is None and self._kinds.get(number) == FILE_SOURCE):
            log.warning("%s is of a batch that was not committed, and not whole: the batch is cut anew", name)
            self._left_behind = True
            return False
        raise CorruptFileError(f"{name} is corrupt: it does not match the checksum beside it. {WAYS_OUT}")

    # --- batches

    def _copy_cut(self, batch: int, cut: bytes) -> None:
        """Copy how the next batch was cut, if that is whole and so are the logs it refers to."""
        path = self._old / "offsets" / str(batch)
        intact = is_intact(path, cut)
        if (intact or (intact is None and self._origin.sealed)) and not self._left_behind and self._fits(cut):
            self._write(self._new / "offsets" / str(batch), cut)
            if intact:
                self._copy_checksum(path, self._new / "offsets" / str(batch))
        else:
            log.warning("%s%s/offsets/%d is not whole: the batch is cut anew", SPARK, self._old.name, batch)

    def _fits(self, cut: bytes) -> bool:
        lines = cut.decode(errors="replace").split("\n")[HEADER_LINES:]
        if len(lines) != sum(map(len, self._layout.values())):
            return False
        for sources in self._layout.values():
            for line, number, kind in sources:
                if kind == FILE_SOURCE and lines[line] != NO_OFFSET:
                    try:
                        if int(json.loads(lines[line])["logOffset"]) > self._newest.get(number, -1):
                            return False
                    except (ValueError, KeyError, TypeError):
                        return False
        return True

    def _copy_commit(self, batch: int) -> None:
        """Copy that Spark took a batch as done. What it says beside is for queries with state, which are refused."""
        data = self._read(self._old / "commits" / str(batch)) or b""
        version, _, rest = data.partition(b"\n")
        with contextlib.suppress(ValueError):
            if version == b"v1" and isinstance(json.loads(rest), dict):
                self._write(self._new / "commits" / str(batch), data)

    def _metadata(self, moves: Mapping[int, int] | None) -> bytes:
        """The id of the query, which stays as long as its sources do."""
        found = self._read(self._old / METADATA) if moves is None else None
        with contextlib.suppress(ValueError):
            if found is not None and isinstance(json.loads(found)["id"], str):
                return found
        return json.dumps({"id": str(uuid.uuid4())}).encode()

    # --- files

    def _names(self, folder: Path) -> list[str]:
        """The names of all files below a folder; not checksums, nor what was still being written."""
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
        """Make all that was written so far durable, with its folders inside of the location."""
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
