"""A file system that forgets what was not synced: what a power failure can leave of a directory, at every moment.

While a :class:`Recorder` is active, calls of this process that change or sync files are noted, and before each of them
the directory is looked at. What other processes write there, Spark's JVM for one, is seen as well; nobody else syncs.
POSIX promises no more than this: the data of a file is on the disk when the file was synced, and a name (a new one, or
that one is gone) when its directory was. So between two syncs the order of changes does not matter: a power failure may
lose any part of them. From each moment :func:`crashes` builds

- ``lost``: all that was not synced is gone,
- ``kept``: all of it is there, as when only the process dies,
- ``names``: the names are there, and files that were not synced are empty,
- ``torn``: the same, but half of their data is there,
- a few random mixtures, drawn from a seed.
"""

from __future__ import annotations

import os
import pathlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: A file, whatever its names are: its inode, when it was written, since numbers of inodes come again, and its size,
#: since the clock of a file system is coarse. None stands for a directory.
File = tuple[int, int, int] | None
#: By directory, relative to the root, its names.
Names = dict[str, dict[str, File]]

_CHANGES = ("link", "rename", "replace", "unlink", "remove", "mkdir", "rmdir")


@dataclass(frozen=True)
class Moment:
    """What is on the disk, and what of it is certain, just before an operation. ``acknowledged`` is what the program
    has been promised so far."""

    operation: str
    names: Names
    synced_names: Names
    synced_files: frozenset[File]
    data: Mapping[File, bytes]
    acknowledged: tuple[Any, ...]


class Recorder:
    """Notes what happens below ``root``, which is certain at the beginning.

    Syncs of what is below the folder ``forgotten`` do nothing, to see that this is noticed.
    """

    def __init__(self, root: Path, forgotten: str | None = None) -> None:
        self._root = root.absolute()
        self._forgotten = forgotten
        self._lock = threading.RLock()
        self._data: dict[File, bytes] = {}
        self._synced_files: set[File] = set()
        self._acknowledged: tuple[Any, ...] = ()
        self._paths: dict[int, str] = {}
        self._names: Names = self._look()
        self._synced_names: Names = self._names
        self.moments: list[Moment] = []

    def acknowledge(self, what: Any) -> None:
        """From now on the program relies on something."""
        with self._lock:
            self._acknowledged = (*self._acknowledged, what)
            self._note(f"acknowledged {what}")

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Begin to record."""
        paths: Any = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10: what the methods of a Path call
        for name in _CHANGES:
            noting = self._noting(name, getattr(os, name))
            patch.setattr(os, name, noting)
            if paths is not None:
                patch.setattr(paths, name, staticmethod(noting), raising=False)
        opened, synced = os.open, os.fsync

        def open_(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
            handle = opened(path, flags, mode, **more)
            with self._lock:
                self._paths[handle] = os.fspath(path)
            return handle

        def fsync(handle: int) -> None:
            with self._lock:
                inside = self._inside(self._paths.get(handle, ""))
                if inside is None:
                    return
                self._note(f"fsync {inside}")
                synced(handle)
                if self._forgotten is not None and f"{inside}/".startswith(f"{self._forgotten}/"):
                    return
                if inside in self._names:
                    self._synced_names = {**self._synced_names, inside: self._names[inside]}
                else:
                    folder, _, name = inside.rpartition("/")
                    self._synced_files.add(self._names[folder][name])

        patch.setattr(os, "open", open_)
        patch.setattr(os, "fsync", fsync)

    def _noting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **more: Any) -> Any:
            with self._lock:
                if any(self._inside(one) is not None for one in arguments if isinstance(one, str | os.PathLike)):
                    self._note(name)
                return call(*arguments, **more)

        return noted

    def _inside(self, path: Any) -> str | None:
        path = os.path.abspath(os.fspath(path))  # noqa: PTH100
        if path == str(self._root):
            return ""
        prefix = f"{self._root}/"
        return path.removeprefix(prefix) if path.startswith(prefix) else None

    def _note(self, operation: str) -> None:
        self._names = self._look()
        self.moments.append(
            Moment(
                operation,
                self._names,
                self._synced_names,
                frozenset(self._synced_files),
                self._data,
                self._acknowledged,
            )
        )

    def _look(self) -> Names:
        """All names, as they are now; each file is read when it is seen for the first time."""
        found: Names = {}
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            names: dict[str, File] = {}
            try:
                for entry in os.scandir(self._root / folder):
                    inside = f"{folder}/{entry.name}" if folder else entry.name
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            names[entry.name] = None
                            waiting.append(inside)
                            continue
                        status = entry.stat()
                        file = status.st_ino, status.st_mtime_ns, status.st_size
                        if file not in self._data:
                            self._data[file] = Path(entry.path).read_bytes()
                        names[entry.name] = file
                    except FileNotFoundError:  # another process continues meanwhile
                        continue
            except FileNotFoundError:
                continue
            found[folder] = names
        return found


def crashes(moment: Moment, mixtures: int = 0) -> Iterator[tuple[str, dict[str, bytes]]]:
    """What a power failure may leave at a moment: what it is called, and files by their paths from the root."""

    def synced(file: File) -> bytes:
        return moment.data[file] if file in moment.synced_files else b""

    def torn(file: File) -> bytes:
        data = moment.data[file]
        return data if file in moment.synced_files else data[: len(data) // 2]

    yield "lost", _files(lambda folder: moment.synced_names.get(folder, {}), synced)
    yield "kept", _files(lambda folder: moment.names.get(folder, {}), lambda file: moment.data[file])
    yield "names", _files(lambda folder: moment.names.get(folder, {}), synced)
    yield "torn", _files(lambda folder: moment.names.get(folder, {}), torn)
    for number in range(mixtures):
        dice = random.Random(f"{number} {moment.operation} {sorted(moment.names)}")

        def mixed(folder: str, dice: random.Random = dice) -> dict[str, File]:
            before, now = moment.synced_names.get(folder, {}), moment.names.get(folder, {})
            chosen = {}
            for name in sorted({*before, *now}):
                source = before if dice.random() < 0.5 else now
                if name in source:
                    chosen[name] = source[name]
            return chosen

        def some(file: File, dice: random.Random = dice) -> bytes:
            return dice.choice((synced, torn, moment.data.__getitem__))(file)

        yield f"mixture {number}", _files(mixed, some)


def _files(names: Callable[[str], dict[str, File]], data: Callable[[File], bytes]) -> dict[str, bytes]:
    found = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for name, file in names(folder).items():
            inside = f"{folder}/{name}" if folder else name
            if file is None:
                waiting.append(inside)
            else:
                found[inside] = data(file)
    return found


def different(moments: list[Moment], mixtures: int = 0) -> Iterator[tuple[Moment, str, dict[str, bytes]]]:
    """What power failures may leave, at every moment; the same files with the same promises come once.

    Temporary files are left out: nobody reads them.
    """
    seen = set()
    for moment in moments:
        for kind, files in crashes(moment, mixtures):
            left = {name: data for name, data in files.items() if "/.tmp/" not in name}
            state = hash((frozenset(left.items()), moment.acknowledged))
            if state not in seen:
                seen.add(state)
                yield moment, kind, left


def lay_out(files: Mapping[str, bytes], root: Path) -> None:
    """Write files below ``root``."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
