"""The settings of local stores from a job's configuration, and the resulting RocksDB options."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    Options,
    WriteBufferManager,
)

from tidemill.common.configuration import Configuration
from tidemill.config import RocksDBOptions
from tidemill.errors import ConfigurationError

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30

#: The differences of predefined settings from the defaults; explicit settings take precedence over both.
_PREDEFINED: Final[dict[str, dict[str, Any]]] = {
    "DEFAULT": {},
    "SPINNING_DISK_OPTIMIZED": {"threads": 4, "open_files": -1, "dynamic_levels": True},
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        "threads": 4,
        "open_files": -1,
        "dynamic_levels": True,
        "target_file_size": 256 * MB,
        "level_size": GB,
        "write_buffers": 4,
        "write_buffers_to_merge": 3,
        "block_size": 128 * KB,
        "block_cache": 256 * MB,
    },
    "FLASH_SSD_OPTIMIZED": {"threads": 4, "open_files": -1},
}


@dataclass(frozen=True)
class RocksDBSettings:
    """The settings of all stores of a job. Sizes are in bytes; with ``memory`` 0, every store has its own memory."""

    directories: tuple[str, ...] = ()
    choice: str = "RANDOM"
    timers_on_heap: bool = False
    timer_cache: int = 128
    cached_values: int = 100_000
    memory: int = 128 * MB
    write_buffer_ratio: float = 0.5
    block_cache: int = 8 * MB
    block_size: int = 4 * KB
    metadata_block_size: int = 4 * KB
    partitioned_index: bool = True
    write_buffer: int = 64 * MB
    write_buffers: int = 2
    write_buffers_to_merge: int = 1
    write_batch: int = 2 * MB
    bloom_bits: float = 10.0
    compaction: str = "LEVEL"
    dynamic_levels: bool = False
    target_file_size: int = 64 * MB
    level_size: int = 256 * MB
    threads: int = 2
    open_files: int = -1
    options_factory: str | None = None

    @classmethod
    def of(cls, configuration: Configuration) -> RocksDBSettings:
        """The settings for a configuration. Raises :class:`ConfigurationError` for an invalid factory."""
        get = configuration.get
        predefined = _PREDEFINED[get(RocksDBOptions.PREDEFINED_OPTIONS)]
        values = {
            name: predefined[name] if name in predefined and not configuration.contains(known) else get(known)
            for name, known in _OPTIONS.items()
        }
        if not get(RocksDBOptions.USE_BLOOM_FILTER):
            values["bloom_bits"] = 0.0
        directories = get(RocksDBOptions.LOCAL_DIRECTORIES) or get(RocksDBOptions.TEMPORARY_DIRECTORIES) or ""
        settings = cls(
            directories=tuple(part.strip() for part in directories.split(",") if part.strip()),
            timers_on_heap=get(RocksDBOptions.TIMER_SERVICE_FACTORY) == "HEAP",
            memory=get(RocksDBOptions.FIXED_MEMORY) or (128 * MB if get(RocksDBOptions.MANAGED_MEMORY) else 0),
            **values,
        )
        if settings.options_factory is not None:
            load_options_factory(settings.options_factory)
        return settings

    def options(self) -> Options:
        """RocksDB's options for one store."""
        table = BlockBasedOptions()
        table.set_block_size(self.block_size)
        table.set_metadata_block_size(self.metadata_block_size)
        if self.bloom_bits:
            table.set_bloom_filter(self.bloom_bits, False)  # type: ignore[arg-type]  # a float, contrary to the stubs
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        cache, buffers = _memory(self.memory, self.write_buffer_ratio) if self.memory else (None, None)
        table.set_block_cache(cache if cache is not None else Cache(self.block_cache))
        if buffers is not None:
            options.set_write_buffer_manager(buffers)
            # Index and filters count too: nothing that grows with the state is outside of the budget.
            table.set_cache_index_and_filter_blocks(True)
            table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        if self.partitioned_index:
            # Partitioned, because the filter of a large file would not fit into one shard of the cache.
            table.set_index_type(BlockBasedIndexType.two_level_index_search())
            table.set_partition_filters(True)
            table.set_pin_top_level_index_and_filter(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_size(self.write_buffer)
        options.set_max_write_buffer_number(self.write_buffers)
        options.set_min_write_buffer_number_to_merge(self.write_buffers_to_merge)
        options.set_level_compaction_dynamic_level_bytes(self.dynamic_levels)
        options.set_target_file_size_base(self.target_file_size)
        options.set_max_bytes_for_level_base(self.level_size)
        options.set_max_background_jobs(self.threads)
        options.set_max_open_files(self.open_files)
        if self.compaction == "NONE":
            options.set_disable_auto_compactions(True)
        else:
            options.set_compaction_style(_STYLES[self.compaction]())
        # Durable state is stored elsewhere: waiting for the disk, or keeping log files, is not worth it here.
        options.set_use_fsync(False)
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        if self.options_factory is None:
            return options
        return load_options_factory(self.options_factory)(options)


_OPTIONS: Final[dict[str, Any]] = {
    "choice": RocksDBOptions.LOCAL_DIRECTORY_CHOICE,
    "timer_cache": RocksDBOptions.TIMER_CACHE_SIZE,
    "cached_values": RocksDBOptions.CACHED_VALUES,
    "write_buffer_ratio": RocksDBOptions.WRITE_BUFFER_RATIO,
    "block_cache": RocksDBOptions.BLOCK_CACHE_SIZE,
    "block_size": RocksDBOptions.BLOCK_SIZE,
    "metadata_block_size": RocksDBOptions.METADATA_BLOCK_SIZE,
    "partitioned_index": RocksDBOptions.PARTITIONED_INDEX_FILTERS,
    "write_buffer": RocksDBOptions.WRITE_BUFFER_SIZE,
    "write_buffers": RocksDBOptions.WRITE_BUFFER_COUNT,
    "write_buffers_to_merge": RocksDBOptions.WRITE_BUFFERS_TO_MERGE,
    "write_batch": RocksDBOptions.WRITE_BATCH_SIZE,
    "bloom_bits": RocksDBOptions.BLOOM_FILTER_BITS,
    "compaction": RocksDBOptions.COMPACTION_STYLE,
    "dynamic_levels": RocksDBOptions.DYNAMIC_LEVEL_SIZE,
    "target_file_size": RocksDBOptions.TARGET_FILE_SIZE,
    "level_size": RocksDBOptions.LEVEL_SIZE,
    "threads": RocksDBOptions.THREADS,
    "open_files": RocksDBOptions.OPEN_FILES,
    "options_factory": RocksDBOptions.OPTIONS_FACTORY,
}

_STYLES: Final[dict[str, Callable[[], DBCompactionStyle]]] = {
    "LEVEL": DBCompactionStyle.level,
    "UNIVERSAL": DBCompactionStyle.universal,
}

_budgets: dict[tuple[int, float], tuple[Cache, WriteBufferManager]] = {}
_lock = threading.Lock()


def _memory(size: int, ratio: float) -> tuple[Cache, WriteBufferManager]:
    """The memory shared by all stores of this process: a block cache, part of which may be used for write buffers."""
    with _lock:
        found = _budgets.get((size, ratio))
        if found is None:
            cache = Cache(size)
            buffers = WriteBufferManager.new_write_buffer_manager_with_cache(max(1, int(size * ratio)), False, cache)
            found = _budgets[size, ratio] = (cache, buffers)
        return found


def load_options_factory(name: str) -> Callable[[Options], Options]:
    """``create_options`` of an instance of the class named by ``state.backend.rocksdb.options-factory``."""
    module, _, attribute = name.rpartition(".")
    try:
        factory = getattr(importlib.import_module(module), attribute)()
        create: Callable[[Options], Options] = factory.create_options
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{RocksDBOptions.OPTIONS_FACTORY.key}: {name!r} must be the dotted name of a class without arguments that "
            f"has a method create_options(options: rocksdict.Options) -> rocksdict.Options ({error})"
        ) from error
    return create
