"""Unbounded jobs on Spark's streams, which run their epochs inside one Structured Streaming query.

Start in ``streaming.py``.
"""
