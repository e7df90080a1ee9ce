"""Cleans up watched files that were read: Spark's option ``cleanSource`` with ``off``, ``delete`` or ``archive``.

A file is cleaned up after the epoch that read it is committed. If the driver ends in between, the file may stay.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidemill.checkpoint.model import Epoch
from tidemill.errors import ConfigurationError

__all__ = ["ProcessedFiles"]

log = logging.getLogger(__name__)


class ProcessedFiles:
    """Deletes, moves or keeps the files of committed epochs."""

    def __init__(self, archive: Path | None = None, *, delete: bool = False) -> None:
        self._archive = archive
        self._delete = delete
        self._waiting: list[tuple[int, str]] = []

    @classmethod
    def of(cls, options: Mapping[str, str], root: str, *, local: bool) -> ProcessedFiles:
        """Create an instance from the options of a source, whose names are in lower case."""
        mode = options.get("cleansource", "off").lower()
        if mode == "off":
            return cls()
        if not local:
            raise ConfigurationError(f"cleanSource: {mode} is possible for local directories only, not for {root}")
        if mode == "delete":
            return cls(delete=True)
        if mode != "archive":
            raise ConfigurationError(f"cleanSource is off, delete or archive, not {mode!r}")
        archive = options.get("sourcearchivedir")
        if archive is None:
            raise ConfigurationError("cleanSource: archive needs the option sourceArchiveDir")
        target = Path(archive.removeprefix("file://")).absolute()
        if target.is_relative_to(root) or Path(root).is_relative_to(target):
            raise ConfigurationError(f"sourceArchiveDir {target} must not be inside the watched path or contain it")
        return cls(target)

    def reading(self, paths: Sequence[str], epoch: Epoch) -> None:
        """Record that an epoch reads these files."""
        if self._delete or self._archive is not None:
            self._waiting += [(epoch, path) for path in paths]

    def clean(self, committed: int) -> None:
        """Clean up the files of all epochs up to ``committed``."""
        while self._waiting and self._waiting[0][0] <= committed:
            path = Path(self._waiting.pop(0)[1])
            try:
                if self._archive is None:
                    path.unlink(missing_ok=True)
                else:
                    target = self._archive / path.relative_to("/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(target)
            except OSError as error:
                log.warning("%s was read, but cannot be deleted or archived: %s", path, error)
