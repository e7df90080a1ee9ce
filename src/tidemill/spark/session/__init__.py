"""The Spark session that jobs share, the cluster behind it, and its failures in our words.

Start in ``session_lease.py``: who uses a session and when it is stopped.
"""
