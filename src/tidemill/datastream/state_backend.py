"""State backends. Each class only writes its settings to the configuration."""

from __future__ import annotations

import abc
import enum
import re

from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, RocksDBOptions, StateOptions
from tidemill.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    shown_path,
)

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]


class PredefinedOptions(enum.Enum):
    """Predefined RocksDB settings for a kind of disk."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class StateBackend(abc.ABC):
    """Where state is kept while a job runs."""

    @abc.abstractmethod
    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this backend to ``configuration``."""


class HashMapStateBackend(StateBackend):
    """Keeps state as Python objects in the worker's memory. It is the fastest backend; state is limited by memory."""

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this backend to ``configuration``."""
        configuration.set(StateOptions.BACKEND, "hashmap")


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on the worker's local disk. State can be larger than memory."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = enable_incremental_checkpointing
        self._paths: tuple[str, ...] = ()
        self._predefined = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets the local directories for the databases, as paths or ``file:`` URIs. Subtasks are spread over them."""
        if not paths:
            raise ValueError("at least one path is needed")
        self._paths = tuple(map(_local, paths))

    def get_db_storage_paths(self) -> list[str]:
        """The local directories. Empty for the default."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """The value that was set. It has no effect: checkpoints are always incremental."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Selects predefined settings for a kind of disk."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The selected predefined settings."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Sets the dotted name of a class that creates RocksDB options."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """The dotted name of the class that creates RocksDB options, or None."""
        return self._options_factory

    def get_number_of_transfer_threads(self) -> int:
        """The number of threads that transfer the files of a snapshot."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Sets the number of threads that transfer the files of a snapshot."""
        if number_of_transfering_threads < 1:
            raise ValueError(f"at least one thread is needed, not {number_of_transfering_threads}")
        self._transfer_threads = number_of_transfering_threads

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this backend to ``configuration``."""
        configuration.set(StateOptions.BACKEND, "rocksdb")
        configuration.set(RocksDBOptions.PREDEFINED_OPTIONS, self._predefined.name)
        if self._incremental is not None:
            configuration.set(CheckpointingOptions.INCREMENTAL, self._incremental)
        if self._paths:
            configuration.set(RocksDBOptions.LOCAL_DIRECTORIES, ",".join(self._paths))
        if self._options_factory is not None:
            configuration.set_string("state.backend.rocksdb.options-factory", self._options_factory)
        configuration.set_integer("state.backend.rocksdb.checkpoint.transfer.thread.num", self._transfer_threads)


class CustomStateBackend(StateBackend):
    """A user-defined backend, given by the dotted name of its class."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this backend to ``configuration``."""
        configuration.set(StateOptions.BACKEND, self.class_name)


class _BackendWithStorage(HashMapStateBackend):
    """State in memory, and where its checkpoints are stored (Flink 1.x)."""

    def __init__(self, storage: CheckpointStorage, savepoint_path: str | None, asynchronous: bool | None) -> None:
        self._storage = storage
        self._savepoint_path = savepoint_path
        self._asynchronous = asynchronous is not False

    def is_using_asynchronous_snapshots(self) -> bool:
        """The value that was set; true by default. It has no effect."""
        return self._asynchronous

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this backend and its checkpoint storage to ``configuration``."""
        super().apply(configuration)
        self._storage.apply(configuration)
        if self._savepoint_path is not None:
            configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, self._savepoint_path)


class MemoryStateBackend(_BackendWithStorage):
    """State in memory, checkpoints in the driver's memory (Flink 1.x)."""

    _storage: JobManagerCheckpointStorage

    DEFAULT_MAX_STATE_SIZE = JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        """Snapshots are asynchronous, regardless of ``using_asynchronous_snapshots``."""
        storage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        super().__init__(storage, savepoint_path, using_asynchronous_snapshots)

    def get_max_state_size(self) -> int:
        """The maximum size of one state in bytes."""
        return self._storage.get_max_state_size()


class FsStateBackend(_BackendWithStorage):
    """State in memory, checkpoints in a directory (Flink 1.x)."""

    _storage: FileSystemCheckpointStorage

    def __init__(
        self,
        checkpoint_directory_uri: str,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        """Snapshots are asynchronous, regardless of ``using_asynchronous_snapshots``."""
        storage = FileSystemCheckpointStorage(
            checkpoint_directory_uri,
            file_state_size_threshold,
            -1 if write_buffer_size is None else write_buffer_size,
        )
        super().__init__(storage, default_savepoint_directory_uri, using_asynchronous_snapshots)

    def get_checkpoint_path(self) -> str:
        """The checkpoint directory, in the form that Flink prints."""
        return self._storage.get_checkpoint_path()

    def get_min_file_size_threshold(self) -> int:
        """The size in bytes below which state is not stored in a separate file."""
        return self._storage.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        """The size of the write buffer in bytes, or -1 for the default."""
        return self._storage.get_write_buffer_size()


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """State in RocksDB, checkpoints in a directory (Flink 1.x)."""

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        """Checkpoints are stored in ``checkpoint_data_uri``, or where ``checkpoint_stream_backend`` stores them."""
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_stream_backend is None:
            if checkpoint_data_uri is None:
                raise ValueError("RocksDBStateBackend needs checkpoint_data_uri or checkpoint_stream_backend")
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        self._checkpoint_backend = checkpoint_stream_backend

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend that determines where checkpoints are stored."""
        return self._checkpoint_backend

    def get_number_of_transfering_threads(self) -> int:
        """Older name of :meth:`get_number_of_transfer_threads`."""
        return self.get_number_of_transfer_threads()

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Older name of :meth:`set_number_of_transfer_threads`."""
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def apply(self, configuration: Configuration) -> None:
        """Write the settings of this backend and its checkpoint storage to ``configuration``."""
        self._checkpoint_backend.apply(configuration)
        super().apply(configuration)


def _local(path: str) -> str:
    """Return a path on the local disk as a plain path."""
    scheme, separator, _ = path.partition(":")
    if not separator or "/" in scheme:
        return path if path == "/" else re.sub("/+", "/", path).removesuffix("/")
    local = shown_path(path).partition(":")[2]
    if scheme.lower() != "file" or local.startswith("//"):
        raise ValueError(f"Path {path} has a non-local scheme")
    return local
