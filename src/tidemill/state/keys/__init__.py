"""Determines the key group of a key: canonical keys, stable hashes, ranges of key groups.

Start with ``key_groups.py``. The results are part of every checkpoint, and so must never change. Key selectors are in
``tidemill.datastream.program.key_selectors``. The keys of RocksDB are encoded in
``tidemill.state.rocksdb.key_encoding``.
"""
