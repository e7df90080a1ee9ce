"""Bounded input, materialized as Parquet and read epoch by epoch, from the same positions on every engine.

Start with ``parquet_source.py``. ``row_groups.py`` selects what an epoch reads, ``write_input.py`` writes rows without
Spark. How Spark writes the rows of a DataFrame is in ``tidemill.spark.bounded``, how the local engine reads files and
topics in ``tidemill.local``.
"""
