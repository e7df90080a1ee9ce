"""Bounded DataFrames: written once as Parquet, then read by the workers epoch by epoch.

Start in ``parquet_input.py`` (a directory) or ``object_input.py`` (an object store).
"""
