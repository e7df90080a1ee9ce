"""Unbounded jobs on Spark's streams: epochs inside one Structured Streaming query.

Start in ``streaming.py``.
"""
