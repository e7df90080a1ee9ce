"""Copies of objects for Spark to read, if Spark has no connector for their store.

The driver copies the objects of an epoch to a directory that is visible to the tasks: the job's own or, if tasks run on
the driver's machine, a temporary one. The copies are deleted when the next epoch begins.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidemill.connectors.file_system.listing import ObjectListing
from tidemill.errors import ConfigurationError, LostInputError
from tidemill.runtime.task.scratch import scratch_directory

__all__ = ["Staging"]

#: The folder in a job's directory.
_FOLDER: Final = ".staged"
#: The number of objects to copy in parallel.
_REQUESTS: Final = 8


class Staging:
    """The copies of one job, which all its executions share."""

    def __init__(self, directory: Path | None, *, local: bool) -> None:
        """``directory`` is the job's own, if it has one; ``local`` is true if tasks run on this machine."""
        self._directory = directory
        self._local = local
        self._root: Path | None = None
        self._remove: Callable[[], None] = lambda: None
        self._originals: dict[str, str] = {}

    def check(self, uri: str) -> None:
        """Raise :class:`ConfigurationError` if there is no directory for copies that is visible to tasks."""
        if self._directory is None and not self._local:
            raise ConfigurationError(
                f"{uri} cannot be watched: Spark has no connector for it (for s3a://, the package hadoop-aws), and "
                "there is no directory that all machines share to copy its objects to (execution.checkpointing.dir)"
            )

    def copies(self, listing: ObjectListing, paths: Sequence[str]) -> tuple[list[str], int]:
        """Copy objects; returns the paths of the copies and the number of path parts before the objects' names.

        Raises :class:`~tidemill.errors.LostInputError` for an object that no longer exists.
        """
        place = self._place() / uuid.uuid4().hex
        targets = [place / path.removeprefix(f"{listing.uri}/") for path in paths]

        def copy(path: str, target: Path) -> None:
            try:
                data = listing.read(path)
            except FileNotFoundError as error:
                raise LostInputError(f"a file of a watched path was deleted before it was read: {error}") from None
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

        with ThreadPoolExecutor(min(_REQUESTS, len(paths)), thread_name_prefix="tidemill-copy") as pool:
            for _ in pool.map(copy, paths, targets):
                pass
        self._originals.update((str(target), path) for path, target in zip(paths, targets, strict=True))
        return [str(target) for target in targets], len(place.parts)

    def original(self, path: str) -> str:
        """Return the object that a path is a copy of, or the path itself if it is not a copy."""
        return self._originals.get(path, path)

    def clear(self) -> None:
        """Delete the copies, after the epoch that read them has ended."""
        if self._root is not None and self._originals:
            for folder in self._root.iterdir():
                if folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)
            self._originals.clear()

    def close(self) -> None:
        """Delete everything, after the job has ended."""
        self.clear()
        self._remove()

    def _place(self) -> Path:
        if self._root is None:
            if self._local:
                self._root, self._remove = scratch_directory()
            elif self._directory is not None:
                # A driver that was killed has left its copies, which are no longer needed.
                shutil.rmtree(self._directory / _FOLDER, ignore_errors=True)
                self._root = self._directory / _FOLDER
                self._root.mkdir(parents=True, exist_ok=True)
        if self._root is None:
            raise ConfigurationError("there is no directory that is visible to tasks")
        return self._root
