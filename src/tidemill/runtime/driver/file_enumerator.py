"""Selects the files of a watched path that an epoch reads: each path once, regardless of its modification time.

The paths that were read are the source's state (:mod:`tidemill.runtime.driver.files_read`). A new file that is not
among them waits. An epoch takes waiting files up to a bound, the least recently modified first. The selection is stored
before the epoch runs. A driver that takes over the job therefore knows which files its predecessor had begun: it begins
with the same files, and detects if one of them no longer exists.

The duration of a listing depends on the size of the directory. Listings therefore run in a separate thread, and take at
most a tenth of the time.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tidemill.connectors.file_system.listing import FileListing, FoundFile
from tidemill.errors import LostInputError

__all__ = ["FileBounds", "FileEnumerator"]

log = logging.getLogger(__name__)

#: Limits the share of time spent on listing: after a listing that took a second, the next one starts ten seconds later.
_DUTY: Final = 10
#: The maximum number of files that an error or log message names.
_NAMED: Final = 5


@dataclass(frozen=True)
class FileBounds:
    """The maximum that one epoch takes from a watched path; it takes at least one file."""

    files: int | None = None
    bytes: int | None = None

    def at_most(self, size: int) -> FileBounds:
        """These bounds, with at most ``size`` bytes."""
        return FileBounds(self.files, size if self.bytes is None else min(size, self.bytes))


class FileEnumerator:
    """Assigns the files of one watched path to epochs.

    ``read`` are the paths that were read, ``begun`` the paths of an epoch that was begun but not committed. ``missing``
    determines what happens if a file no longer exists when it is to be read: ``fail`` or ``skip``.
    """

    def __init__(
        self,
        listing: FileListing,
        read: Collection[str],
        begun: Iterable[str] = (),
        *,
        where: str,
        missing: str = "fail",
        interval: float | None = None,
        latest_first: bool = False,
        by_name: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``where`` names the source in errors. With ``by_name``, files with the same name count as one file."""
        # configuration
        self._listing = listing
        self._where = where
        self._missing = missing
        self._interval = listing.interval if interval is None else interval
        self._latest_first = latest_first
        self._key = _name if by_name else str
        self._clock = clock
        # transient
        self._known = {self._key(path) for path in read} if by_name else set(read)
        self._waiting: deque[FoundFile] = deque()
        self._lister = ThreadPoolExecutor(1, thread_name_prefix="tidemill-files")
        self._listed: Future[tuple[list[FoundFile], float]] | None = None
        self._next = 0.0
        #: The number of files that were skipped because they no longer existed.
        self.skipped = 0
        self._begun = self._resumed(begun)

    def available(self) -> bool:
        """Whether files are waiting. Also checks for new files from time to time, in the background."""
        self._look()
        return bool(self._begun or self._waiting)

    @property
    def pending_files(self) -> int:
        """The number of waiting files."""
        return len(self._begun) + len(self._waiting)

    def take(self, bounds: FileBounds) -> list[FoundFile]:
        """The files of the next epoch. An epoch that was begun but not committed is repeated with all of its files."""
        self._look()
        if self._begun:
            taken, self._begun = self._begun, []
        else:
            taken = self._next_files(bounds)
        there = self._listing.present(file.path for file in taken)
        gone = [file.path for file in taken if file.path not in there]
        if gone:
            self._lose(gone, "were found, but were gone before they were read")
        return [there[file.path] for file in taken if file.path in there]

    def is_there(self, path: str) -> bool:
        """Whether a partly read file still exists. If not, this raises, or counts the file as skipped."""
        if self._listing.present([path]):
            return True
        self._lose([path], "were partly read, and are gone")
        return False

    def close(self) -> None:
        """Close the listing, without waiting for one that is running."""
        self._lister.shutdown(wait=False, cancel_futures=True)
        self._listing.close()

    def _next_files(self, bounds: FileBounds) -> list[FoundFile]:
        taken: list[FoundFile] = []
        size = 0
        while self._waiting and (bounds.files is None or len(taken) < bounds.files):
            size += self._waiting[0].size
            if taken and bounds.bytes is not None and size > bounds.bytes:
                break
            taken.append(self._waiting.popleft())
        return taken

    def _look(self) -> None:
        if self._listed is None:
            if self._clock() >= self._next:
                self._listed = self._lister.submit(self._list)
            return
        if not self._listed.done():
            return
        listed, self._listed = self._listed, None
        found, seconds = listed.result()
        self._next = self._clock() + max(self._interval, _DUTY * seconds)
        self._add(found)

    def _list(self) -> tuple[list[FoundFile], float]:
        """The new files, and the seconds that the listing took, without epochs that run in the meantime.

        The set of known files changes only between two listings, so that this thread may read it.
        """
        started = self._clock()
        found = self._listing.new_files(self._is_known)
        return found, self._clock() - started

    def _is_known(self, path: str) -> bool:
        return self._key(path) in self._known

    def _add(self, found: list[FoundFile]) -> None:
        found.sort(key=lambda file: (file.modified, file.path), reverse=self._latest_first)
        new = []
        for file in found:
            key = self._key(file.path)
            if key not in self._known:
                self._known.add(key)
                new.append(file)
        if self._latest_first:
            self._waiting.extendleft(reversed(new))
        else:
            self._waiting.extend(new)

    def _resumed(self, begun: Iterable[str]) -> list[FoundFile]:
        paths = [path for path in dict.fromkeys(begun) if not self._is_known(path)]
        if not paths:
            return []
        there = self._listing.present(paths)
        gone = [path for path in paths if path not in there]
        if gone:
            self._lose(gone, "were being read when the job ended, and are gone")
        self._known.update([self._key(path) for path in there])
        return [there[path] for path in paths if path in there]

    def _lose(self, gone: list[str], what: str) -> None:
        named = ", ".join(gone[:_NAMED]) + (f" and {len(gone) - _NAMED} more" if gone[_NAMED:] else "")
        if self._missing == "fail":
            raise LostInputError(
                f"{self._where}: files of the watched path {what}: {named}. Put them back, or continue without them "
                "with files.missing: skip"
            )
        log.warning("%s: files of the watched path %s, and are skipped (files.missing): %s", self._where, what, named)
        self.skipped += len(gone)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
