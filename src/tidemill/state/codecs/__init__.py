"""Converts values to Arrow columns and back.

Start with ``column_codecs.py``, which selects a codec for a declared type. Everything written here is part of every
checkpoint: a new form needs a new name. ``serializers.py`` compares the types of a program with the stored ones. The
types themselves are in ``tidemill.common.type_kinds``, the sections that contain the columns in
``tidemill.state.files``. Entries of RocksDB are encoded in ``tidemill.state.rocksdb.value_encoding``.
"""
