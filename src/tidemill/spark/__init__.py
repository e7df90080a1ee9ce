"""Spark as the engine of jobs, and its sources and sinks. This is the only package that imports PySpark.

Start with ``executor.py``, which turns a program into a running job. ``readers.py`` maps sources to their readers.
Subpackages: ``session``, ``jobs`` (an epoch as a Spark job), ``streams`` (epochs inside a streaming query), ``frames``
(sources as DataFrames), ``kafka``, ``files`` (files and watched directories), ``bounded`` (input that is materialized
first), ``locations`` (Spark's own checkpoint locations), ``output`` (sinks that Spark writes). The epoch loop and the
tasks are in ``tidemill.runtime``, the classes of connectors in ``tidemill.connectors``.
"""
