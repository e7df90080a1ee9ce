"""Spark's own checkpoint locations: one for each lineage of a job, built from that of an earlier lineage.

Start in ``locations.py``.
"""
