"""The options of the RocksDB state backend. Keys and defaults are Flink's unless the description states otherwise."""

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
        "Local directories, comma-separated; if not set, io.tmp.dirs.",
    )
    TEMPORARY_DIRECTORIES = option(
        "io.tmp.dirs", Text(), None, "Directories for temporary files, comma-separated; if not set, the system's."
    )
    LOCAL_DIRECTORY_CHOICE = option(
        "state.backend.rocksdb.localdir.choice",
        OneOf("RANDOM", "ROUND_ROBIN", "LEAST_USED"),
        "RANDOM",
        "Tidemill only. How the local directory of a new store is chosen if there are several.",
    )
    CACHED_VALUES = option(
        "state.backend.rocksdb.cached-values",
        Int(0),
        100_000,
        "Tidemill only. Number of values that each subtask of an operator caches as Python objects.",
    )
    MANAGED_MEMORY = option(
        "state.backend.rocksdb.memory.managed",
        Bool(),
        True,
        "Share memory among all stores of a worker process: 128 MB unless fixed-per-slot is set.",
    )
    FIXED_MEMORY = option(
        "state.backend.rocksdb.memory.fixed-per-slot",
        MemorySizeValue(),
        None,
        "Memory that all stores of a worker process share for caches and write buffers.",
    )
    WRITE_BUFFER_RATIO = option(
        "state.backend.rocksdb.memory.write-buffer-ratio",
        Float(0, 1),
        0.5,
        "Share of the shared memory that write buffers may use.",
    )
    PARTITIONED_INDEX_FILTERS = option(
        "state.backend.rocksdb.memory.partitioned-index-filters",
        Bool(),
        True,
        "Partition the indexes and filters of files; off in Flink.",
    )
    TIMER_SERVICE_FACTORY = option(
        "state.backend.rocksdb.timer-service.factory", OneOf("ROCKSDB", "HEAP"), "ROCKSDB", "Where timers are stored."
    )
    TIMER_CACHE_SIZE = option(
        "state.backend.rocksdb.timer-service.cache-size", Int(1), 128, "Number of timers that are read ahead."
    )
    OPTIONS_FACTORY = option(
        "state.backend.rocksdb.options-factory",
        Text(),
        None,
        "Dotted name of a class whose create_options(options) modifies and returns rocksdict.Options.",
    )
    PREDEFINED_OPTIONS = option(
        "state.backend.rocksdb.predefined-options",
        OneOf("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
        "DEFAULT",
        "Predefined settings for a kind of disk.",
    )
    BLOCK_CACHE_SIZE = option(
        "state.backend.rocksdb.block.cache-size", MemorySizeValue(), 8 * MB, "Size of the block cache."
    )
    BLOCK_SIZE = option("state.backend.rocksdb.block.blocksize", MemorySizeValue(), 4 * KB, "Size of a data block.")
    METADATA_BLOCK_SIZE = option(
        "state.backend.rocksdb.block.metadata-blocksize",
        MemorySizeValue(),
        4 * KB,
        "Size of a partition of an index or filter.",
    )
    WRITE_BUFFER_SIZE = option(
        "state.backend.rocksdb.writebuffer.size", MemorySizeValue(), 64 * MB, "Size of a memtable."
    )
    WRITE_BUFFER_COUNT = option("state.backend.rocksdb.writebuffer.count", Int(1), 2, "Maximum number of memtables.")
    WRITE_BUFFERS_TO_MERGE = option(
        "state.backend.rocksdb.writebuffer.number-to-merge", Int(1), 1, "Memtables merged before they are written."
    )
    WRITE_BATCH_SIZE = option(
        "state.backend.rocksdb.write-batch-size", MemorySizeValue(), 2 * MB, "Amount of state loaded at a time."
    )
    USE_BLOOM_FILTER = option(
        "state.backend.rocksdb.use-bloom-filter", Bool(), True, "Bloom filters in new files; off in Flink."
    )
    BLOOM_FILTER_BITS = option(
        "state.backend.rocksdb.bloom-filter.bits-per-key", Float(1), 10.0, "Bits per key of the bloom filter."
    )
    COMPACTION_STYLE = option(
        "state.backend.rocksdb.compaction.style",
        OneOf("LEVEL", "UNIVERSAL", "NONE"),
        "LEVEL",
        "Compaction style. Flink's FIFO is not supported: it is meant for caches and drops old files.",
    )
    DYNAMIC_LEVEL_SIZE = option(
        "state.backend.rocksdb.compaction.level.use-dynamic-size",
        Bool(),
        False,
        "Derive level sizes from the last level.",
    )
    TARGET_FILE_SIZE = option(
        "state.backend.rocksdb.compaction.level.target-file-size-base",
        MemorySizeValue(),
        64 * MB,
        "Size of a file of level 1.",
    )
    LEVEL_SIZE = option(
        "state.backend.rocksdb.compaction.level.max-size-level-base",
        MemorySizeValue(),
        256 * MB,
        "Total size of the files of level 1.",
    )
    THREADS = option("state.backend.rocksdb.thread.num", Int(1), 2, "Background threads.")
    OPEN_FILES = option(
        "state.backend.rocksdb.files.open", Int(1, also=(-1,)), -1, "Maximum number of open files; -1 means no limit."
    )
