"""State in a RocksDB on the worker's local disk: larger than memory.

The store is a cache of durable state, never more: it has no log of its own, and whatever is wrong with it, a new one is
built from the checkpoint. A worker that finds a version left by another one reads only what came after it.
"""

from tidemill.state.rocksdb.backend import RocksDBBackend
from tidemill.state.rocksdb.settings import RocksDBSettings

__all__ = ["RocksDBBackend", "RocksDBSettings"]
