"""Spark's own checkpoint locations: one for each history of a job, built from those before it.

Start in ``locations.py``.
"""
