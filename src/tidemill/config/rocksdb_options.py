"""The options of the RocksDB state backend, with Flink's keys and defaults."""

from __future__ import annotations

from tidemill.config.option import option
from tidemill.config.values import Bool, Float, Int, MemorySize, OneOf, Text

KB, MB = 1 << 10, 1 << 20


class RocksDBOptions:
    """The RocksDB state backend."""

    LOCAL_DIRECTORIES = option("state.backend.rocksdb.localdir", Text(), None, "Local directories, comma-separated.")
    TIMER_SERVICE_FACTORY = option(
        "state.backend.rocksdb.timer-service.factory", OneOf("ROCKSDB", "HEAP"), "ROCKSDB", "Where timers are kept."
    )
    PREDEFINED_OPTIONS = option(
        "state.backend.rocksdb.predefined-options",
        OneOf("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
        "DEFAULT",
        "A set of settings for a kind of disk.",
    )
    BLOCK_CACHE_SIZE = option("state.backend.rocksdb.block.cache-size", MemorySize(), 8 * MB, "Block cache.")
    BLOCK_SIZE = option("state.backend.rocksdb.block.blocksize", MemorySize(), 4 * KB, "Data block.")
    WRITE_BUFFER_SIZE = option("state.backend.rocksdb.writebuffer.size", MemorySize(), 64 * MB, "One memtable.")
    WRITE_BUFFER_COUNT = option("state.backend.rocksdb.writebuffer.count", Int(1), 2, "Most memtables.")
    WRITE_BATCH_SIZE = option("state.backend.rocksdb.write-batch-size", MemorySize(), 2 * MB, "One batch of writes.")
    USE_BLOOM_FILTER = option("state.backend.rocksdb.use-bloom-filter", Bool(), False, "Bloom filters in new files.")
    BLOOM_FILTER_BITS = option(
        "state.backend.rocksdb.bloom-filter.bits-per-key", Float(1), 10.0, "Bits of the bloom filter for each key."
    )
    COMPACTION_STYLE = option(
        "state.backend.rocksdb.compaction.style", OneOf("LEVEL", "UNIVERSAL", "FIFO", "NONE"), "LEVEL", "Compaction."
    )
    THREADS = option("state.backend.rocksdb.thread.num", Int(1), 2, "Background threads.")
    OPEN_FILES = option("state.backend.rocksdb.files.open", Int(1, also=(-1,)), -1, "Most open files; -1: no bound.")
