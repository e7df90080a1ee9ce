"""State in a RocksDB on the worker's local disk, for state larger than memory.

The store is only a cache of durable state: it has no write-ahead log, and if it is damaged, a new one is built from the
checkpoint. A worker that finds a version left by another worker reads only the changes after it.

Start with ``backend.py`` and ``store.py``. ``timers.py`` has the timers. The interface of backends, and the changes of
the current epoch, are in ``tidemill.state.keyed``.
"""

from tidemill.state.rocksdb.backend import RocksDBBackend
from tidemill.state.rocksdb.settings import RocksDBSettings

__all__ = ["RocksDBBackend", "RocksDBSettings"]
