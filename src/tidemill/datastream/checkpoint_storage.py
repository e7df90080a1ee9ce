"""Checkpoint storages. Each class only writes its settings to the configuration."""

from __future__ import annotations

import abc
import posixpath
import re

from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


def shown_path(path: str) -> str:
    """Return a path or URI in the form that Flink prints: without repeated or trailing slashes and empty hosts.

    >>> shown_path("file:///checkpoints//of/job/"), shown_path("s3://bucket/checkpoints/"), shown_path("/checkpoints/")
    ('file:/checkpoints/of/job', 's3://bucket/checkpoints', '/checkpoints')
    """
    scheme, colon, rest = path.strip().partition(":")
    if not colon or "/" in scheme:
        scheme, colon, rest = "", "", path.strip()
    host = ""
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        host, rest = f"//{host}" if host else "", slash + rest
    return scheme + colon + host + (posixpath.normpath(re.sub("/+", "/", rest)) if rest else "")


class CheckpointStorage(abc.ABC):
    """Where checkpoints are stored."""

    @abc.abstractmethod
    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this storage to ``configuration``."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in the driver's memory, up to a maximum size. They do not survive the driver."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """The directory that checkpoints are additionally written to, in the form that Flink prints, or None."""
        return None if self._checkpoint_path is None else shown_path(self._checkpoint_path)

    def get_max_state_size(self) -> int:
        """The maximum size of one state in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """The default savepoint directory. Always None: it is not set here."""
        return None

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this storage to ``configuration``."""
        configuration.set(CheckpointingOptions.STORAGE, "jobmanager")
        configuration.set(CheckpointingOptions.JOBMANAGER_MAX_STATE_SIZE, self._max_state_size)
        if self._checkpoint_path is not None:
            configuration.set(CheckpointingOptions.DIRECTORY, self._checkpoint_path)


class FileSystemCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in a directory, given as a path or URI."""

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if not checkpoint_path:
            raise ValueError("FileSystemCheckpointStorage needs a checkpoint directory")
        self._checkpoint_path = checkpoint_path
        self._threshold = 20 * 1024 if file_state_size_threshold is None else file_state_size_threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The checkpoint directory, in the form that Flink prints."""
        return shown_path(self._checkpoint_path)

    def get_savepoint_path(self) -> str | None:
        """The default savepoint directory. Always None: it is not set here."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """The size in bytes below which state is not stored in a separate file."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """The size of the write buffer in bytes, or -1 for the default."""
        return self._write_buffer_size

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this storage to ``configuration``."""
        configuration.set(CheckpointingOptions.STORAGE, "filesystem")
        configuration.set(CheckpointingOptions.DIRECTORY, self._checkpoint_path)


class CustomCheckpointStorage(CheckpointStorage):
    """A user-defined storage, given by the dotted name of its class."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this storage to ``configuration``."""
        configuration.set(CheckpointingOptions.STORAGE, self.class_name)
