"""Running a compiled job, epoch by epoch, on any engine.

On workers: ``task`` (one subtask of one epoch), its ``operators``, the ``exchange`` between subtasks, records in
``batch``, event time in ``time``. On the driver: ``driver`` (the epoch loop, commits, savepoints, restarts), ``start``
(the state a job starts from) and ``history`` (what remains of a job that has ended). For input that the engine reads:
``stored_input`` (bounded input, stored before the first epoch) and ``watched`` (directories). ``observe`` provides
metrics and logs for both. ``epoch.py`` contains what the driver sends to the tasks of an epoch.
``docs/architecture.md`` describes how the parts work together.

Start with ``driver/epoch_loop.py`` and ``task/task.py``. Nothing in this package depends on Spark: the engines are
``tidemill.spark`` and ``tidemill.local``. State is stored in ``tidemill.state`` and ``tidemill.checkpoint``.
"""
