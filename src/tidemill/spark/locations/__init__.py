"""Spark's own checkpoint locations: one for each lineage of a job, built from that of an earlier lineage.

Start with ``locations.py``. Positions are copied into manifests in ``tidemill.spark.streams``. Tidemill's own
checkpoints are in ``tidemill.checkpoint``.
"""
