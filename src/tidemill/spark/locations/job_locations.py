"""The Spark checkpoint locations of a job: in its own directory or, with an object store, mirrored there.

Spark needs a location in a directory, and only the driver writes to it. If the job's storage is not a directory, the
driver has a temporary one with the same layout while it runs. The files of a location that another driver would need
are copied to the storage, under the same names as in a job's directory, before an epoch that needs them is committed::

    spark/<lineage>/sources/<number>/<entry>    the logs of sources: the files read, the starting offsets of a topic
    spark/<lineage>/offsets/0                   the boundaries of the first batch, until a batch is committed
    spark/<lineage>/metadata                    stored last: the starting positions of this lineage are complete

The manifest of an epoch contains the end of its batch. An epoch whose sources have logged nothing therefore copies
nothing, which is the case for all Kafka sources after their first epoch.

A process may die at any time. A log can then be ahead of the manifest, as it can be in Spark itself: files that are in
the log but in no batch belong to the next batch. A lineage writes only under its own name. A driver that still runs
after another one has taken over its job does not affect its successor, which has copied everything it needs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import SPARK, lineage_slot, spark_location
from tidemill.checkpoint.spark_logs import SOURCES, LogEntry, entry_id, needed
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.checkpoint.storage.local import LocalStorage, sync_path
from tidemill.errors import CheckpointError
from tidemill.runtime.task.scratch import scratch_directory
from tidemill.spark.locations.build_location import METADATA
from tidemill.spark.locations.locations import earlier_locations
from tidemill.spark.locations.spark_checksums import checksum_path

log = logging.getLogger(__name__)

T = TypeVar("T")

_OFFSETS: Final = "offsets/"
_NOTHING: Final[frozenset[str]] = frozenset()
#: The number of parallel requests to the store. If a directory was watched for a long time, a start copies several
#: hundred entries.
_REQUESTS: Final = 8


class SparkLocations:
    """The Spark checkpoint locations of a job that has a directory. Not thread-safe.

    Spark does not sync its logs to disk. Before a manifest may rely on them, this class makes them durable and collects
    the entries for the manifest to record. An epoch only processes the files that are new since the previous one: none
    for Kafka, one small file for each batch of a watched directory.
    """

    #: Whether files without a Spark checksum are complete.
    sealed = False

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """Without ``durable``, files are not synced, and a power failure may lose them."""
        self.directory = directory
        self.durable = durable
        # transient
        self._lineage = ""
        self._kept: dict[str, set[str]] = {}  # file names, by folder inside the location
        self._looked_at: dict[str, set[str]] = {}  # the same, as of the last listing
        self._durable_folders: set[Path] = set()  # folders whose own names are durable
        self._entries: dict[str, LogEntry] = {}  # the entries of sources' logs, by name inside the location

    def bring(self, lineage: str, restored: Manifest | None) -> None:
        """Bring the location from which ``lineage`` resumes, if there is one, to :attr:`directory`.

        ``restored`` is the manifest from which the job resumes. Locations that no start can return to are deleted.
        """

    def keep(self, lineage: str, *, begun: bool) -> list[LogEntry]:
        """Secure the location of ``lineage``, so that a manifest may refer to it, and return the entries to record.

        ``begun`` indicates whether a batch has been committed. Until then, the boundaries of the first batch are
        secured as well. Raises :class:`~tidemill.errors.CheckpointError`, after which the call can be repeated.
        """
        if lineage != self._lineage:
            self._open(lineage)
        # Later parts refer to earlier ones. They are therefore secured after those, but listed before them, because
        # Spark may write both at the same time.
        parts = (SOURCES,) if begun else (SOURCES, _OFFSETS, METADATA)
        looked_at = [self._new(part) for part in reversed(parts)]
        for files in reversed(looked_at):
            if files:
                self._keep(files, begun=begun)
        self._remember(looked_at)
        return self._recorded()

    def forget_superseded(self) -> None:
        """Delete superseded logs. Call it after an epoch was committed since :meth:`keep`, while no one copies logs."""

    def close(self) -> None:
        """Release all resources, after the job has ended."""

    def _open(self, lineage: str) -> None:
        """Start with the location of a lineage."""
        self._lineage, self._kept, self._looked_at, self._entries = lineage, {}, {}, {}
        self._durable_folders = set()

    def _keep(self, new: Iterable[str], *, begun: bool) -> None:
        """Make files durable. Until the first batch is committed, only Spark's checksums can reveal damage."""
        place = self.directory / spark_location(self._lineage)
        folders: set[Path] = set()
        try:
            for name in new:
                path = place / name
                with contextlib.suppress(FileNotFoundError):  # Spark deletes entries that it has compacted
                    self._read(name, path)
                    self._sync(path)
                    folders.add(path.parent)
                    if path.parent not in self._durable_folders:  # its own name is new as well
                        folders.update((*path.parents[: name.count("/") + 1], place.parent, self.directory))
                    if not begun:
                        self._sync(checksum_path(path))  # if there is one
            for folder in sorted(folders, reverse=True):
                self._sync(folder)
            self._durable_folders |= folders
        except OSError as error:
            raise CheckpointError(f"cannot make {place} durable: {error}") from error

    def _sync(self, path: Path) -> None:
        if self.durable:
            sync_path(path)

    def _read(self, name: str, path: Path) -> bytes:
        """Return the contents of a file, and record it if it is an entry of a source's log."""
        data = path.read_bytes()
        if name.startswith(SOURCES) and entry_id(path.name) is not None:
            self._entries[name] = LogEntry.of(name.removeprefix(SOURCES), data)
        return data

    def _recorded(self) -> list[LogEntry]:
        """Return the entries of the sources' logs for the manifest to record, and discard those it does not need."""
        logs: dict[str, list[str]] = {}
        for name in self._entries:
            folder, _, entry = name.rpartition("/")
            logs.setdefault(folder, []).append(entry)
        chosen = [f"{folder}/{entry}" for folder, entries in sorted(logs.items()) for entry in needed(entries)]
        self._entries = {name: self._entries[name] for name in chosen}
        return [*self._entries.values()]

    def _new(self, part: str) -> Mapping[str, object]:
        """Return the files in a part of the location that are not secured yet; no checksums or unfinished files."""
        found: dict[str, object] = {}
        if part not in self._kept.get("", _NOTHING):
            self._look(f"{self.directory / spark_location(self._lineage)}/", part, found)
        return found

    def _look(self, place: str, name: str, found: dict[str, object]) -> bool:
        """Search for files. Returns whether ``name`` is a file itself."""
        with contextlib.suppress(FileNotFoundError):
            if not name.endswith("/"):
                if stat.S_ISREG(os.stat(f"{place}{name}").st_mode):  # noqa: PTH116
                    found[name] = None
                    return True
                name += "/"
            # This runs in each epoch, and a log has as many entries as there were batches in ten minutes. Only new
            # entries are examined individually, because Spark never changes an entry.
            names = self._looked_at[name] = set(os.listdir(f"{place}{name}"))  # noqa: PTH208
            for child in names - self._kept.get(name, _NOTHING):
                if child[0] != "." and not self._look(place, f"{name}{child}", found):
                    names.discard(child)
        return False

    def _remember(self, looked_at: Iterable[Mapping[str, object]]) -> None:
        """Record that all listed files are secured."""
        self._kept.update(self._looked_at)
        self._kept.setdefault("", set()).update(name for files in looked_at for name in files if "/" not in name)


class MirroredLocations(SparkLocations):
    """The Spark checkpoint locations of a job whose storage is not a directory. Not thread-safe."""

    sealed = True

    def __init__(self, storage: Storage) -> None:
        directory, self._remove = scratch_directory()
        super().__init__(directory, durable=False)
        # configuration
        self._storage = storage
        # transient
        self._stored: dict[str, tuple[int, int]] = {}  # modification time and size, by name inside the location
        self._may_go = 0

    def bring(self, lineage: str, restored: Manifest | None) -> None:
        stored: dict[str, set[str]] = {}
        for name in self._storage.list(SPARK):
            owner, _, inside = name.removeprefix(SPARK).partition("/")
            stored.setdefault(owner, set()).add(inside)
        own = lineage_slot(lineage) or 0
        earlier = [owner for owner in sorted(stored) if (slot := lineage_slot(owner)) is not None and slot < own]
        if restored is not None and restored.spark is not None:
            needed: str = restored.spark["lineage"]
            if not (self.directory / spark_location(needed)).exists():
                self._fetch(needed, (SOURCES,))
        else:
            # The newest one with the starting positions of its sources, unless this process has a newer one.
            needed = next((owner for owner in reversed(earlier) if METADATA in stored[owner]), "")
            ours = earlier_locations(self.directory, lineage)
            if needed and (not ours or ours[-1].name < needed):
                # The logs of sources last, so that they are at least as new as the offsets that refer to them.
                self._fetch(needed, (METADATA, _OFFSETS, SOURCES))
            # Do not delete newer ones: a driver that still runs may be about to commit an epoch that refers to one.
            earlier = [owner for owner in earlier if owner < needed]
        superseded = [owner for owner in earlier if owner != needed]
        self._delete([f"{spark_location(owner)}/{inside}" for owner in superseded for inside in sorted(stored[owner])])

    def forget_superseded(self) -> None:
        """Delete the entries that Spark has deleted after compacting its log, which the manifest does not need.

        Each call deletes only a few, but more than were added, so that it does not delay the next epoch.
        """
        there = self._files(SOURCES)
        gone = [name for name in self._stored if name.startswith(SOURCES) and name not in there][: self._may_go]
        self._may_go = 0
        self._delete([f"{spark_location(self._lineage)}/{name}" for name in gone])
        for name in gone:
            del self._stored[name]

    def close(self) -> None:
        self._remove()

    def _open(self, lineage: str) -> None:
        super()._open(lineage)
        self._stored, self._may_go = {}, 0

    def _new(self, part: str) -> dict[str, tuple[int, int]]:
        return {name: seen for name, seen in self._files(part).items() if self._stored.get(name) != seen}

    def _remember(self, looked_at: Iterable[Mapping[str, Any]]) -> None:
        for files in looked_at:
            self._stored.update(files)

    def _files(self, part: str) -> dict[str, tuple[int, int]]:
        """Return the files in a part of the lineage's location, without checksums and unfinished files."""
        # This runs twice in each epoch, and a log has as many entries as there were batches in ten minutes. pathlib is
        # too slow for it.
        place = f"{self.directory / spark_location(self._lineage)}/"
        folders: Iterable[tuple[str, Any, list[str]]] = [(place, [], [part])]
        if part.endswith("/"):
            folders = os.walk(f"{place}{part}")
        found = {}
        for folder, _, names in folders:
            for name in names:
                if name.startswith("."):
                    continue
                path = os.path.join(folder, name)  # noqa: PTH118
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(path)  # noqa: PTH116
                    if stat.S_ISREG(status.st_mode):
                        found[path.removeprefix(place)] = status.st_mtime_ns, status.st_size
        return found

    def _keep(self, new: Iterable[str], *, begun: bool) -> None:
        """Copy files to the storage, each as one object."""
        place, names = spark_location(self._lineage), list(new)

        def store(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):  # Spark deletes entries that it has compacted
                self._storage.write(f"{place}/{name}", self._read(name, self.directory / place / name))

        self._each(store, names)
        self._may_go += 2 * len(names)

    def _fetch(self, lineage: str, parts: Iterable[str]) -> None:
        """Copy parts of a location from the storage, one after the other. The copy is complete or does not exist."""
        place, incoming = self.directory / spark_location(lineage), self.directory / ".incoming"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir(parents=True)
        prefix = f"{spark_location(lineage)}/"

        def fetch(name: str) -> None:
            try:
                data = self._storage.read(name)
            except NotFoundError:
                return  # deleted by a driver that still runs: it is now part of a compacted entry
            target = incoming / name.removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

        for part in parts:
            self._each(fetch, self._storage.list(f"{prefix}{part}"))
        place.parent.mkdir(exist_ok=True)
        incoming.rename(place)

    def _delete(self, names: Iterable[str]) -> None:
        """Delete files that are no longer needed. If one cannot be deleted now, a later start deletes it."""
        try:
            self._each(lambda name: self._storage.delete([name]), names)
        except CheckpointError as error:
            log.warning("superseded logs of Spark's sources were not deleted: %s", error)

    def _each(self, do: Callable[[str], T], names: Iterable[str]) -> None:
        """Call ``do`` for each name, and raise the first exception."""
        names = list(names)
        if len(names) < 2:  # the usual case: a thread would cost more than the request
            for name in names:
                do(name)
            return
        with ThreadPoolExecutor(min(_REQUESTS, len(names)), thread_name_prefix="tidemill-copy") as pool:
            for _ in pool.map(do, names):
                pass


def open_locations(storage: Storage, directory: Path | None) -> SparkLocations:
    """Open the Spark checkpoint locations of a job with this storage, which is in ``directory`` unless that is None."""
    if directory is None:
        return MirroredLocations(storage)
    return SparkLocations(directory, durable=not isinstance(storage, LocalStorage) or storage.durable)
