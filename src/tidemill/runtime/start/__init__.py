"""Finds the state that a job starts from, and checks whether its program is compatible with that state.

Start with ``starting_point.py``, then ``upgrade.py``. ``before_engine.py`` checks what can be checked before an engine
starts, and ``driver_record.py`` whether another driver runs the job. ``trust.py`` checks whether state may be
unpickled. The checks have no side effects but that record: an incompatible program is refused before it runs. State is
copied in ``tidemill.checkpoint.portable`` and loaded in ``tidemill.runtime.task.warm``.
"""
