"""Bounded DataFrames, which are written once as Parquet and then read by the workers epoch by epoch.

Start in ``parquet_input.py`` (a directory) or ``object_input.py`` (an object store).
"""
