"""Where state lives while a job runs. Each class only writes the configuration that names it."""

from __future__ import annotations

import abc
import enum

from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, RocksDBOptions, StateOptions
from tidemill.datastream.checkpoint_storage import FileSystemCheckpointStorage, JobManagerCheckpointStorage

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
    """Sets of RocksDB settings for a kind of disk."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class StateBackend(abc.ABC):
    """A home for state."""

    @abc.abstractmethod
    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend."""


class HashMapStateBackend(StateBackend):
    """Keeps state as live Python objects in the worker's memory: fastest, bounded by memory."""

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend."""
        configuration.set(StateOptions.BACKEND, "hashmap")


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in a RocksDB on the worker's disk: larger than memory."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = enable_incremental_checkpointing
        self._paths: tuple[str, ...] = ()
        self._predefined = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Local directories for the databases, spread over the subtasks."""
        if not paths:
            raise ValueError("at least one path is needed")
        self._paths = paths

    def get_db_storage_paths(self) -> list[str]:
        """The local directories, empty for the default."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """What was asked for; Tidemill always writes only what changed."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose settings for a kind of disk."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The settings chosen."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Dotted name of a class that makes RocksDB options."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Dotted name of the class that makes RocksDB options, if set."""
        return self._options_factory

    def get_number_of_transfer_threads(self) -> int:
        """Threads that move files of a snapshot."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Threads that move files of a snapshot."""
        if number_of_transfering_threads < 1:
            raise ValueError(f"at least one thread is needed, not {number_of_transfering_threads}")
        self._transfer_threads = number_of_transfering_threads

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend."""
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
    """A backend of the user's own, by the dotted name of its class."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend."""
        configuration.set(StateOptions.BACKEND, self.class_name)


class MemoryStateBackend(HashMapStateBackend):
    """Flink 1.x: state in memory, checkpoints in the driver's memory."""

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._storage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend and its storage."""
        super().apply(configuration)
        self._storage.apply(configuration)


class FsStateBackend(HashMapStateBackend):
    """Flink 1.x: state in memory, checkpoints in a directory."""

    def __init__(self, checkpoint_directory_uri: str) -> None:
        self._storage = FileSystemCheckpointStorage(checkpoint_directory_uri)

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend and its storage."""
        super().apply(configuration)
        self._storage.apply(configuration)


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """Flink 1.x: state in RocksDB, checkpoints in a directory."""

    def __init__(self, checkpoint_data_uri: str, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__(enable_incremental_checkpointing)
        self._storage = FileSystemCheckpointStorage(checkpoint_data_uri)

    def apply(self, configuration: Configuration) -> None:
        """Write the settings that stand for this backend and its storage."""
        super().apply(configuration)
        self._storage.apply(configuration)
