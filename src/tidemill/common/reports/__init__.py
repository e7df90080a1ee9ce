"""The reports of a job: checkpoints, failures, hot keys, metrics, the result of a dry run.

They are plain data that the runtime fills in and that clients, the REST server and the command line display. They
contain no job logic: metrics are collected in ``tidemill.runtime.observe``, and checkpoint statistics in
``tidemill.runtime.driver.checkpointing``. Start with ``metric_value.py``.
"""
