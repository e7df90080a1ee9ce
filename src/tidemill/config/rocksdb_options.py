"""The options of the RocksDB state backend, with Flink's keys and defaults unless the description says otherwise."""

from __future__ import annotations

from tidemill.config.option import option
from tidemill.config.values import Bool, Float, Int, MemorySizeValue, OneOf, Text

KB, MB = 1 << 10, 1 << 20


class RocksDBOptions:
    """The RocksDB state backend."""

    LOCAL_DIRECTORIES = option(
        "state.backend.rocksdb.localdir",
        Text(),
        None,
        "Local directories, comma-separated; not set: io.tmp.dirs.",
    )
    TEMPORARY_DIRECTORIES = option(
        "io.tmp.dirs", Text(), None, "Directories for temporary files, comma-separated; not set: the system's."
    )
    LOCAL_DIRECTORY_CHOICE = option(
        "state.backend.rocksdb.localdir.choice",
        OneOf("RANDOM", "ROUND_ROBIN", "LEAST_USED"),
        "RANDOM",
        "Tidemill's own: which of several local directories a new store goes to.",
    )
    CACHED_VALUES = option(
        "state.backend.rocksdb.cached-values",
        Int(0),
        100_000,
        "Tidemill's own: values that each subtask of an operator keeps as Python objects, in front of RocksDB.",
    )
    MANAGED_MEMORY = option(
        "state.backend.rocksdb.memory.managed",
        Bool(),
        True,
        "All stores of a worker process share one memory, of 128 MB unless fixed-per-slot is set.",
    )
    FIXED_MEMORY = option(
        "state.backend.rocksdb.memory.fixed-per-slot",
        MemorySizeValue(),
        None,
        "The memory that all stores of a worker process share, for caches and what is written.",
    )
    WRITE_BUFFER_RATIO = option(
        "state.backend.rocksdb.memory.write-buffer-ratio",
        Float(0, 1),
        0.5,
        "How much of the shared memory may hold what is written.",
    )
    PARTITIONED_INDEX_FILTERS = option(
        "state.backend.rocksdb.memory.partitioned-index-filters",
        Bool(),
        True,
        "Read indexes and filters of files in parts; off in Flink.",
    )
    TIMER_SERVICE_FACTORY = option(
        "state.backend.rocksdb.timer-service.factory", OneOf("ROCKSDB", "HEAP"), "ROCKSDB", "Where timers are kept."
    )
    TIMER_CACHE_SIZE = option(
        "state.backend.rocksdb.timer-service.cache-size", Int(1), 128, "Timers that are read ahead of their time."
    )
    OPTIONS_FACTORY = option(
        "state.backend.rocksdb.options-factory",
        Text(),
        None,
        "Dotted name of a class whose create_options(options) changes and returns rocksdict.Options.",
    )
    PREDEFINED_OPTIONS = option(
        "state.backend.rocksdb.predefined-options",
        OneOf("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
        "DEFAULT",
        "A set of settings for a kind of disk.",
    )
    BLOCK_CACHE_SIZE = option("state.backend.rocksdb.block.cache-size", MemorySizeValue(), 8 * MB, "Block cache.")
    BLOCK_SIZE = option("state.backend.rocksdb.block.blocksize", MemorySizeValue(), 4 * KB, "Data block.")
    METADATA_BLOCK_SIZE = option(
        "state.backend.rocksdb.block.metadata-blocksize", MemorySizeValue(), 4 * KB, "Part of an index or filter."
    )
    WRITE_BUFFER_SIZE = option("state.backend.rocksdb.writebuffer.size", MemorySizeValue(), 64 * MB, "One memtable.")
    WRITE_BUFFER_COUNT = option("state.backend.rocksdb.writebuffer.count", Int(1), 2, "Most memtables.")
    WRITE_BUFFERS_TO_MERGE = option(
        "state.backend.rocksdb.writebuffer.number-to-merge", Int(1), 1, "Memtables merged before they are written."
    )
    WRITE_BATCH_SIZE = option(
        "state.backend.rocksdb.write-batch-size", MemorySizeValue(), 2 * MB, "State loaded at a time."
    )
    USE_BLOOM_FILTER = option(
        "state.backend.rocksdb.use-bloom-filter", Bool(), True, "Bloom filters in new files; off in Flink."
    )
    BLOOM_FILTER_BITS = option(
        "state.backend.rocksdb.bloom-filter.bits-per-key", Float(1), 10.0, "Bits of the bloom filter for each key."
    )
    COMPACTION_STYLE = option(
        "state.backend.rocksdb.compaction.style",
        OneOf("LEVEL", "UNIVERSAL", "NONE"),
        "LEVEL",
        "Compaction. Flink's FIFO is not here: it is made for caches, and drops old files.",
    )
    DYNAMIC_LEVEL_SIZE = option(
        "state.backend.rocksdb.compaction.level.use-dynamic-size", Bool(), False, "Size levels by the last one."
    )
    TARGET_FILE_SIZE = option(
        "state.backend.rocksdb.compaction.level.target-file-size-base",
        MemorySizeValue(),
        64 * MB,
        "One file of level 1.",
    )
    LEVEL_SIZE = option(
        "state.backend.rocksdb.compaction.level.max-size-level-base",
        MemorySizeValue(),
        256 * MB,
        "All files of level 1.",
    )
    THREADS = option("state.backend.rocksdb.thread.num", Int(1), 2, "Background threads.")
    OPEN_FILES = option("state.backend.rocksdb.files.open", Int(1, also=(-1,)), -1, "Most open files; -1: no bound.")
