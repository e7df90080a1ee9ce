"""Where checkpoints are kept. Each class only writes the configuration that names it."""

from __future__ import annotations

import abc

from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


class CheckpointStorage(abc.ABC):
    """A place for checkpoints."""

    @abc.abstractmethod
    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this storage."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in the driver's memory, up to a size; they do not survive the driver."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """Where checkpoints are written besides, None if nowhere."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Most bytes one state may have."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default: not set here."""
        return None

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this storage."""
        configuration.set(CheckpointingOptions.STORAGE, "jobmanager")
        configuration.set(CheckpointingOptions.JOBMANAGER_MAX_STATE_SIZE, self._max_state_size)
        if self._checkpoint_path is not None:
            configuration.set(CheckpointingOptions.DIRECTORY, self._checkpoint_path)


class FileSystemCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in a directory: a path or a URI."""

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if not checkpoint_path:
            raise ValueError("FileSystemCheckpointStorage needs the directory for checkpoints")
        self._checkpoint_path = checkpoint_path
        self._threshold = 20 * 1024 if file_state_size_threshold is None else file_state_size_threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The directory."""
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default: not set here."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """State smaller than this many bytes needs no file of its own."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Bytes of the write buffer, -1 for the default."""
        return self._write_buffer_size

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this storage."""
        configuration.set(CheckpointingOptions.STORAGE, "filesystem")
        configuration.set(CheckpointingOptions.DIRECTORY, self._checkpoint_path)


class CustomCheckpointStorage(CheckpointStorage):
    """A storage of the user's own, by the dotted name of its class."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this storage."""
        configuration.set(CheckpointingOptions.STORAGE, self.class_name)
