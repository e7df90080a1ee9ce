"""Lists the files of a watched path: a directory of this machine, or the objects below a URI of an object store.

A path is a directory, a file, or a pattern for several of them (``*``, ``?``, ``[a-c]``, ``{a,b}``), as in Spark. All
files in a directory are listed. Subdirectories are included if the lookup is recursive; otherwise only those whose
names have the form ``column=value``. Hidden names below the path are excluded: those that begin with ``.``, or that
begin with ``_`` and do not contain ``=``.

Modification times do not determine whether a file is read, only the order of files.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from tidemill.connectors.object_store import ObjectStore
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["FileListing", "FoundFile", "LocalListing", "ObjectListing", "glob_pattern", "is_hidden", "local_root"]

#: Characters that make a path a pattern.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
#: The scheme of a path that is not in this machine's file system.
_SCHEME: Final = re.compile(r"(?!file:)[A-Za-z][\w+.-]*:/")
#: The number of concurrent requests to an object store.
_REQUESTS: Final = 8


class FoundFile(NamedTuple):
    """A listed file: its absolute path or URI, its size, and its modification time in seconds."""

    path: str
    size: int
    modified: float


class FileListing(ABC):
    """Lists the files of one watched path. Used by one thread at a time."""

    #: Seconds between two listings, unless the program sets an interval.
    interval: float = 0.1

    @abstractmethod
    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        """Return the existing files that are not known yet.

        Raises :class:`~tidemill.errors.ConnectorError` if the path does not exist, or cannot be listed.
        """

    @abstractmethod
    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        """Return those of these files that still exist, by path."""

    def close(self) -> None:
        """Release resources."""


class LocalListing(FileListing):
    """Lists the files of a local or mounted directory."""

    def __init__(self, root: str, *, recursive: bool, accepts: Callable[[str], bool] = lambda name: True) -> None:
        """``root`` is an absolute path; ``accepts`` is a filter for file names."""
        self._root = root
        self._recursive = recursive
        self._accepts = accepts

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        found: list[FoundFile] = []
        for root in self._roots():
            if os.path.isdir(root):  # noqa: PTH112 - plain strings: a path object costs more than the lookup
                found += _stats(path for path in self._below(root) if not is_known(path))
            elif not is_known(root):
                found += _stats([root])
        return found

    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        return {file.path: file for file in _stats(paths)}

    def _roots(self) -> list[str]:
        if os.path.lexists(self._root):
            return [self._root]
        if _PATTERN.search(self._root):
            return _matching(self._root)
        raise ConnectorError(f"the watched path {self._root} does not exist")

    def _below(self, root: str) -> Iterator[str]:
        """Yield the paths of accepted files. Subdirectories deleted in the meantime are ignored, but not the root."""
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            try:
                entries = list(os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError) as error:
                if folder != root:
                    continue
                raise ConnectorError(f"the watched directory {root} no longer exists: {error}") from error
            except OSError as error:
                raise ConnectorError(f"the watched directory {folder} cannot be listed: {error}") from error
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    if (self._recursive or "=" in entry.name) and not _leads_back(entry):
                        waiting.append(entry.path)
                elif entry.is_file() and self._accepts(entry.name):
                    yield entry.path


class ObjectListing(FileListing):
    """Lists the objects below a URI of an object store."""

    interval = 1.0

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        *,
        recursive: bool,
        accepts: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """``options`` are those of :class:`~tidemill.connectors.object_store.ObjectStore`."""
        if _PATTERN.search(uri):
            raise ConfigurationError(
                f"{uri} cannot be watched: patterns in URIs of object stores require Spark's connector for the store"
            )
        self._store = ObjectStore(uri, options, purpose="watched path", failure=ConnectorError)
        self._recursive = recursive
        self._accepts = accepts

    @property
    def uri(self) -> str:
        """The prefix of the paths of all files, without the slash that follows it."""
        return self._store.uri

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        def unknown(store: Any, api: Any) -> list[FoundFile]:
            return [
                self._found(entry)
                for batch in api.list(store, chunk_size=1000)
                for entry in batch
                if self._counts(entry["path"]) and not is_known(f"{self.uri}/{entry['path']}")
            ]

        return self._store.call("list", "", unknown)

    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        names = [path.removeprefix(f"{self.uri}/") for path in paths]
        if not names:
            return {}
        with ThreadPoolExecutor(min(_REQUESTS, len(names)), thread_name_prefix="tidemill-files") as pool:
            found = [file for file in pool.map(self._look_up, names) if file is not None]
        return {file.path: file for file in found}

    def read(self, path: str) -> bytes:
        """Return the contents of an object. Raises FileNotFoundError if it does not exist."""
        name = path.removeprefix(f"{self.uri}/")
        return self._store.call("read", name, lambda store, api: bytes(api.get(store, name).bytes()))

    def close(self) -> None:
        self._store.close()

    def _look_up(self, name: str) -> FoundFile | None:
        try:
            return self._found(self._store.call("look up", name, lambda store, api: api.head(store, name)), name)
        except FileNotFoundError:
            return None

    def _found(self, entry: Any, name: str | None = None) -> FoundFile:
        path = f"{self.uri}/{name or entry['path']}"
        return FoundFile(path, int(entry["size"]), entry["last_modified"].timestamp())

    def _counts(self, name: str) -> bool:
        *folders, last = name.split("/")
        return (
            not any(is_hidden(part) for part in (*folders, last))
            and (self._recursive or all("=" in folder for folder in folders))
            and self._accepts(last)
        )


def is_hidden(name: str) -> bool:
    """Whether a file or directory with this name is excluded, as in Spark.

    >>> [is_hidden(name) for name in ("a", ".a", "_a", "_a=1", "a._COPYING_")]
    [False, True, True, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def local_root(path: str) -> str | None:
    """Return the absolute form of a path in this machine's file system, or None for a path in another system.

    Escapes such as ``%20`` are not decoded, because Spark does not decode them in paths and ``file:`` URIs.

    >>> local_root("file:///data/in/"), local_root("/data/../in"), local_root("hdfs://data/in")
    ('/data/in', '/in', None)
    """
    if _SCHEME.match(path):
        return None
    local = "/" + path[5:].lstrip("/") if path.startswith("file:") else path
    return os.path.abspath(local)  # noqa: PTH100 - does not resolve links, as in Spark


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Convert a Hadoop glob pattern for one name to a regular expression.

    >>> bool(glob_pattern("{a,b}[0-9]*.js?n").fullmatch("b7x.json"))
    True
    >>> bool(glob_pattern("*.json").fullmatch("a.json.tmp"))
    False
    """
    parts: list[str] = []
    depth, at = 0, 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "\\" and at < len(pattern):
            parts.append(re.escape(pattern[at]))
            at += 1
        elif char == "*":
            parts.append(".*")
        elif char == "?":
            parts.append(".")
        elif char == "[" and (end := pattern.find("]", at + 1)) > 0:
            inside = pattern[at:end]
            negated = inside[0] in "!^"
            parts.append(f"[{'^' if negated else ''}{inside[negated:].replace(chr(92), chr(92) * 2)}]")
            at = end + 1
        elif char == "{":
            depth += 1
            parts.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            parts.append(")")
        elif char == "," and depth:
            parts.append("|")
        else:
            parts.append(re.escape(char))
    try:
        return re.compile("".join(parts) + ")" * depth, re.DOTALL)
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is not a valid pattern for file names: {error}") from None


def _stats(paths: Iterable[str]) -> Iterator[FoundFile]:
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConnectorError(f"file {path} of a watched directory cannot be read: {error}") from error
        if not path.isascii():
            try:
                path.encode()
            except UnicodeEncodeError:
                raise ConnectorError(
                    f"file {path!r} of a watched directory has a name that is not UTF-8, which Spark cannot read: "
                    "rename it"
                ) from None
        yield FoundFile(path, status.st_size, status.st_mtime)


def _matching(pattern: str) -> list[str]:
    """Return the existing paths that match a pattern, which is evaluated component by component."""
    found = ["/"]
    for part in PurePosixPath(pattern).parts[1:]:
        if not _PATTERN.search(part):
            found = [os.path.join(path, part) for path in found]  # noqa: PTH118
            continue
        wanted = glob_pattern(part)
        matching: list[str] = []
        for path in found:
            try:
                matching += [entry.path for entry in os.scandir(path) if wanted.fullmatch(entry.name)]
            except (FileNotFoundError, NotADirectoryError):
                continue
        found = matching
    return sorted(path for path in found if os.path.exists(path))  # noqa: PTH110


def _leads_back(entry: os.DirEntry[str]) -> bool:
    """Whether a directory is a symbolic link to one of its parent directories."""
    if not entry.is_symlink():
        return False
    target = os.path.realpath(entry.path)
    return f"{os.path.realpath(os.path.dirname(entry.path))}/".startswith(f"{target}/")  # noqa: PTH120
