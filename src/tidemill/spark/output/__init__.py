"""Output of jobs through Spark: writers, streams as DataFrames, state as DataFrames.

There is one module for each. Start with ``writers.py``, which commits the epochs of a Spark sink. The sink itself is
``tidemill.connectors.spark``, and reading state without Spark is ``tidemill.state_processor``.
"""
