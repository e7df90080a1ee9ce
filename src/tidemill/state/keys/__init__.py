"""Which key group a key belongs to: canonical keys, stable hashes, ranges of key groups.

Start in ``key_groups.py``. What is decided here is in every checkpoint, and so it never changes.
"""
