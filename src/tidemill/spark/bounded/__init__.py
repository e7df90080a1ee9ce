"""Writes bounded DataFrames as Parquet, which workers read epoch by epoch with ``tidemill.runtime.stored_input``.

Start with ``parquet_input.py`` (a directory) or ``object_input.py`` (an object store). Unbounded DataFrames are read in
``tidemill.spark.streams``, watched directories in ``tidemill.spark.files``.
"""
