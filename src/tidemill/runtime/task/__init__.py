"""What a worker does for a job: one subtask of one epoch, commits of sinks, merges of state files.

Start with ``task.py``, which reads the input of the subtask and emits its parcels and its ack. ``chain.py`` wires the
operators of a chain. ``warm.py`` keeps chains open between epochs and loads committed state into new ones.
``commit_task.py`` and ``merge_task.py`` are the work that is not part of an epoch.

The operators are in ``tidemill.runtime.operators``. The engine calls tasks from ``tidemill.spark.jobs.worker`` or
``tidemill.local.engine``, and the driver evaluates their acks in ``tidemill.runtime.driver.coordinator``.
"""
