"""Where a job has its Spark checkpoint locations: in its own directory, or, on an object store, mirrored there.

Spark keeps a location in a directory, and only the driver writes to it. Where the job's storage is no directory, the
driver has one for as long as it runs, laid out like the job's own. What another driver needs of a location is copied to
the storage, under the names that it has in a job's directory, before an epoch that needs it is committed::

    spark/<lineage>/sources/<number>/<entry>    the logs of sources: which files were read, where a topic began
    spark/<lineage>/offsets/0                   how the first batch was cut, as long as no batch is committed
    spark/<lineage>/metadata                    stored last: from now on the lineage says where its sources began

Where a batch ended is in its manifest. So nothing is copied in an epoch whose sources have logged nothing, which is so
for all of Kafka's after the first.

A process may die at any moment. A log that is ahead of the manifest is what Spark leaves as well: files that are in it,
but in no batch, are those of the next one. A lineage writes under its own name only, and a driver that still runs after
it was taken over changes nothing that its successor has: that has copied what was there, and what is not needed.
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
#: Requests to the store at a time: where a directory was watched for long, a start copies some hundred entries.
_REQUESTS: Final = 8


class SparkLocations:
    """The Spark checkpoint locations of a job that has a directory. For one thread at a time.

    Spark leaves it to the operating system when its logs reach the disk. So before a manifest may rely on them they are
    made durable here, and what the manifest is to record of them is taken down. An epoch looks at what is new since the
    last one: nothing for Kafka, one small file for each batch of a watched directory.
    """

    #: Whether files without a checksum of Spark's are whole.
    sealed = False

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """Without ``durable`` nothing need survive a power failure."""
        self.directory = directory
        self.durable = durable
        # transient
        self._lineage = ""
        self._kept: dict[str, set[str]] = {}  # by folder inside of the location, the names of files in it
        self._looked_at: dict[str, set[str]] = {}  # the same, as it was when it was looked at the last time
        self._durable_folders: set[Path] = set()  # those whose own names are durable
        self._entries: dict[str, LogEntry] = {}  # by name inside of the location, of those that are in a source's log

    def bring(self, lineage: str, restored: Manifest | None) -> None:
        """Have in :attr:`directory` the location that ``lineage`` goes on from, if there is one.

        ``restored`` is the manifest the job goes on from. What no start can go back to any more is deleted.
        """

    def keep(self, lineage: str, *, begun: bool) -> list[LogEntry]:
        """From now on a manifest may say that the job goes on from the location of ``lineage``; what it is to record.

        ``begun`` is whether a batch has been committed; until then also how the first one is cut is kept.
        Raises :class:`~tidemill.errors.CheckpointError`; may then be called again.
        """
        if lineage != self._lineage:
            self._open(lineage)
        # What comes later refers to what comes before: it is kept after that, but looked at before it, since Spark
        # may write both meanwhile.
        parts = (SOURCES,) if begun else (SOURCES, _OFFSETS, METADATA)
        looked_at = [self._new(part) for part in reversed(parts)]
        for files in reversed(looked_at):
            if files:
                self._keep(files, begun=begun)
        self._remember(looked_at)
        return self._recorded()

    def forget_superseded(self) -> None:
        """An epoch was committed after the last :meth:`keep`, and nobody copies the logs: some may go."""

    def close(self) -> None:
        """The job is over."""

    def _open(self, lineage: str) -> None:
        """Begin with the location of a lineage."""
        self._lineage, self._kept, self._looked_at, self._entries = lineage, {}, {}, {}
        self._durable_folders = set()

    def _keep(self, new: Iterable[str], *, begun: bool) -> None:
        """Make files durable. Before the first batch is committed Spark's checksums are all that tells of damage."""
        place = self.directory / spark_location(self._lineage)
        folders: set[Path] = set()
        try:
            for name in new:
                path = place / name
                with contextlib.suppress(FileNotFoundError):  # Spark deletes what it has merged long ago
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
        """The content of a file, of which a note is taken if it is an entry of a source's log."""
        data = path.read_bytes()
        if name.startswith(SOURCES) and entry_id(path.name) is not None:
            self._entries[name] = LogEntry.of(name.removeprefix(SOURCES), data)
        return data

    def _recorded(self) -> list[LogEntry]:
        """What a manifest is to record of the sources' logs. What it can do without is not remembered any longer."""
        logs: dict[str, list[str]] = {}
        for name in self._entries:
            folder, _, entry = name.rpartition("/")
            logs.setdefault(folder, []).append(entry)
        chosen = [f"{folder}/{entry}" for folder, entries in sorted(logs.items()) for entry in needed(entries)]
        self._entries = {name: self._entries[name] for name in chosen}
        return [*self._entries.values()]

    def _new(self, part: str) -> Mapping[str, object]:
        """What a part of the lineage's location holds that was not kept yet; not checksums, nor unfinished files."""
        found: dict[str, object] = {}
        if part not in self._kept.get("", _NOTHING):
            self._look(f"{self.directory / spark_location(self._lineage)}/", part, found)
        return found

    def _look(self, place: str, name: str, found: dict[str, object]) -> bool:
        """Look for files; whether ``name`` is one itself."""
        with contextlib.suppress(FileNotFoundError):
            if not name.endswith("/"):
                if stat.S_ISREG(os.stat(f"{place}{name}").st_mode):  # noqa: PTH116
                    found[name] = None
                    return True
                name += "/"
            # In each epoch, and a log has as many entries as there were batches in ten minutes: only new ones are
            # looked at one by one. Spark never changes an entry.
            names = self._looked_at[name] = set(os.listdir(f"{place}{name}"))  # noqa: PTH208
            for child in names - self._kept.get(name, _NOTHING):
                if child[0] != "." and not self._look(place, f"{name}{child}", found):
                    names.discard(child)
        return False

    def _remember(self, looked_at: Iterable[Mapping[str, object]]) -> None:
        """All that was looked at is kept."""
        self._kept.update(self._looked_at)
        self._kept.setdefault("", set()).update(name for files in looked_at for name in files if "/" not in name)


class MirroredLocations(SparkLocations):
    """The Spark checkpoint locations of a job whose storage is not a directory. For one thread at a time."""

    sealed = True

    def __init__(self, storage: Storage) -> None:
        directory, self._remove = scratch_directory()
        super().__init__(directory, durable=False)
        # configuration
        self._storage = storage
        # transient
        self._stored: dict[str, tuple[int, int]] = {}  # by name inside of the location: when it was changed, its size
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
            # The newest that says where its sources began, unless an attempt of this process knows more.
            needed = next((owner for owner in reversed(earlier) if METADATA in stored[owner]), "")
            ours = earlier_locations(self.directory, lineage)
            if needed and (not ours or ours[-1].name < needed):
                # Logs of sources last: they are then as new as the offsets that refer to them.
                self._fetch(needed, (METADATA, _OFFSETS, SOURCES))
            # Of a newer one nothing may be missing: a driver that still runs may be about to make it count.
            earlier = [owner for owner in earlier if owner < needed]
        superseded = [owner for owner in earlier if owner != needed]
        self._delete([f"{spark_location(owner)}/{inside}" for owner in superseded for inside in sorted(stored[owner])])

    def forget_superseded(self) -> None:
        """Delete entries that Spark has deleted, having compacted its log: the epoch's manifest can do without.

        A few at a time, but more than were added: deleting must not hold the next epoch up.
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
        """What a part of the lineage's location holds; not checksums, nor what is still being written."""
        # Twice in each epoch, and a log has as many entries as there were batches in ten minutes: pathlib is too slow.
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
        """Store files, each as a whole."""
        place, names = spark_location(self._lineage), list(new)

        def store(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):  # Spark deletes what it has merged long ago
                self._storage.write(f"{place}/{name}", self._read(name, self.directory / place / name))

        self._each(store, names)
        self._may_go += 2 * len(names)

    def _fetch(self, lineage: str, parts: Iterable[str]) -> None:
        """Copy parts of a location from the storage, one after the other: all of it, or nothing is there."""
        place, incoming = self.directory / spark_location(lineage), self.directory / ".incoming"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir(parents=True)
        prefix = f"{spark_location(lineage)}/"

        def fetch(name: str) -> None:
            try:
                data = self._storage.read(name)
            except NotFoundError:
                return  # deleted meanwhile, by a driver that still runs: it is part of a compacted one
            target = incoming / name.removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

        for part in parts:
            self._each(fetch, self._storage.list(f"{prefix}{part}"))
        place.parent.mkdir(exist_ok=True)
        incoming.rename(place)

    def _delete(self, names: Iterable[str]) -> None:
        """Delete what nobody needs; what cannot be deleted now is found by a later start."""
        try:
            self._each(lambda name: self._storage.delete([name]), names)
        except CheckpointError as error:
            log.warning("superseded logs of Spark's sources were not deleted: %s", error)

    def _each(self, do: Callable[[str], T], names: Iterable[str]) -> None:
        """Do something for each name; the first failure is raised."""
        names = list(names)
        if len(names) < 2:  # the usual case: a thread would cost more than the request
            for name in names:
                do(name)
            return
        with ThreadPoolExecutor(min(_REQUESTS, len(names)), thread_name_prefix="tidemill-copy") as pool:
            for _ in pool.map(do, names):
                pass


def open_locations(storage: Storage, directory: Path | None) -> SparkLocations:
    """The Spark checkpoint locations of a job with this storage, which is in ``directory`` if it is in one."""
    if directory is None:
        return MirroredLocations(storage)
    return SparkLocations(directory, durable=not isinstance(storage, LocalStorage) or storage.durable)
