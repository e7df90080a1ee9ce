"""One subtask of one epoch on a worker.

Start with ``task.py``, which reads the input of the subtask and emits its parcels and its ack. ``chain.py`` wires the
operators of a chain. ``warm.py`` keeps chains open between epochs and loads committed state into new ones. The
operators are in ``tidemill.runtime.operators``. The engine calls tasks from ``tidemill.spark.jobs.worker`` or
``tidemill.local.engine``, and the driver evaluates their acks in ``tidemill.runtime.driver.coordinator``.
"""
