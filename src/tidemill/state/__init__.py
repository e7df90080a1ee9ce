"""State of operators: in memory or in RocksDB while a job runs, and as columns in state files.

The packages, from the bottom up: ``keys`` (key groups and hashes), ``codecs`` (values as columns), ``files`` (sections
of state files), ``keyed`` (state by key, timers, time to live, undo), ``operator`` (state by subtask), ``rocksdb`` (a
store on local disk). ``backends.py`` selects a backend, ``merging.py`` merges sections of files. Start with
``keyed/backend.py``, the interface of a state backend; a new kind of state starts with ``keyed/kinds.py``.
``tidemill.checkpoint`` and ``tidemill.runtime`` decide when and where files are written.
"""
