"""Copies of objects that Spark reads in the place of the objects, where it has no connector for their store.

The driver copies the objects of an epoch into a directory that the tasks see: the job's own, or, where tasks run on the
driver's machine, a temporary one. The copies are deleted when the next epoch begins.
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
#: Objects copied at a time.
_REQUESTS: Final = 8


class Staging:
    """Where the copies of one job are, in all its attempts."""

    def __init__(self, directory: Path | None, *, local: bool) -> None:
        """``directory`` is the job's own, if it has one; ``local``: tasks run on this machine."""
        self._directory = directory
        self._local = local
        self._root: Path | None = None
        self._remove: Callable[[], None] = lambda: None
        self._originals: dict[str, str] = {}

    def check(self, uri: str) -> None:
        """Raise :class:`ConfigurationError` if there is no place for copies that tasks can see."""
        if self._directory is None and not self._local:
            raise ConfigurationError(
                f"{uri} cannot be watched: Spark has no connector for it (for s3a://, the package hadoop-aws), and "
                "there is no directory that all machines share to copy its objects to (execution.checkpointing.dir)"
            )

    def copies(self, listing: ObjectListing, paths: Sequence[str]) -> tuple[list[str], int]:
        """Copy objects; returns where the copies are, and how many parts their paths have before the objects' names.

        Raises :class:`~tidemill.errors.LostInputError` for one that is gone.
        """
        place = self._place() / uuid.uuid4().hex
        targets = [place / path.removeprefix(f"{listing.uri}/") for path in paths]

        def copy(path: str, target: Path) -> None:
            try:
                data = listing.read(path)
            except FileNotFoundError as error:
                raise LostInputError(f"a file of a watched path is gone while it is read: {error}") from None
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

        with ThreadPoolExecutor(min(_REQUESTS, len(paths)), thread_name_prefix="tidemill-copy") as pool:
            for _ in pool.map(copy, paths, targets):
                pass
        self._originals.update((str(target), path) for path, target in zip(paths, targets, strict=True))
        return [str(target) for target in targets], len(place.parts)

    def original(self, path: str) -> str:
        """The object that a path is a copy of; the path itself if it is none."""
        return self._originals.get(path, path)

    def clear(self) -> None:
        """The epoch that read the copies is over."""
        if self._root is not None and self._originals:
            for folder in self._root.iterdir():
                if folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)
            self._originals.clear()

    def close(self) -> None:
        """The job is over."""
        self.clear()
        self._remove()

    def _place(self) -> Path:
        if self._root is None:
            if self._local:
                self._root, self._remove = scratch_directory()
            elif self._directory is not None:
                # A driver that was killed has left its copies: nobody needs them.
                shutil.rmtree(self._directory / _FOLDER, ignore_errors=True)
                self._root = self._directory / _FOLDER
                self._root.mkdir(parents=True, exist_ok=True)
        if self._root is None:
            raise ConfigurationError("there is no directory that tasks can see")
        return self._root
