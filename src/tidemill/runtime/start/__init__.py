"""What a job starts from, and whether its program fits that state.

Start in ``starting_point.py``, then ``upgrade.py``. Nothing here changes anything: a program that does not fit is
refused before it runs.
"""
