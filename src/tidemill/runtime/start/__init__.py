"""Finds the state that a job starts from, and checks whether its program is compatible with that state.

Start in ``starting_point.py``, then ``upgrade.py``. The checks have no side effects: an incompatible program is refused
before it runs.
"""
