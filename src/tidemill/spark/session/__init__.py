"""The Spark session that jobs share, its cluster, and the translation of Spark's failures.

Start with ``session_lease.py``, which counts the users of a session and stops it after the last one. ``session.py`` has
Spark's settings. Jobs are submitted in ``tidemill.spark.jobs``.
"""
