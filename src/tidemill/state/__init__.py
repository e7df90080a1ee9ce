"""State of operators: in memory or in RocksDB while a job runs, and as columns in files.

Rooms from the bottom up: ``keys`` (key groups and hashes), ``codecs`` (values as columns), ``files`` (sections of state
files), ``keyed`` (state by key, timers, time to live, undo), ``operator`` (state by subtask), ``rocksdb`` (a store on
local disk). Start in ``keyed/backend.py``, the contract of a state backend. When and where files are written is
decided in ``tidemill.checkpoint`` and ``tidemill.runtime``.
"""
