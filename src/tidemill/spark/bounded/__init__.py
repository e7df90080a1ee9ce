"""Bounded DataFrames, which are written once as Parquet and then read by the workers epoch by epoch.

Start with ``parquet_input.py`` (a directory) or ``object_input.py`` (an object store). Unbounded DataFrames are read in
``tidemill.spark.streams``, watched directories in ``tidemill.spark.files``.
"""
