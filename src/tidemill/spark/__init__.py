"""Spark as the engine of jobs, and its sources and sinks: the only package that imports PySpark.

Start in ``executor.py``: from a program to a running job. ``readers.py`` has the table of which reader reads which
source. Rooms: ``session``, ``jobs`` (an epoch as a Spark job), ``streams`` (epochs inside a streaming query),
``frames`` (sources as DataFrames), ``kafka``, ``files`` (files and watched directories), ``bounded`` (input that is
materialized first), ``locations`` (Spark's own checkpoint locations), ``output`` (sinks that Spark writes).
"""
