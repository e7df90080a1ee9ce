"""Running a compiled job, epoch by epoch, on any engine.

On workers: ``task`` (one subtask of one epoch), its ``operators``, the ``exchange`` between subtasks, records in
``batch``, event time in ``time``. On the driver: ``driver`` (the epoch loop, commits, savepoints, restarts) and
``start`` (what a job starts from). ``observe`` counts and logs on both. ``epoch.py`` is what the driver tells tasks of
an epoch. ``docs/architecture.md`` walks through all of it. Spark is not known here.
"""
