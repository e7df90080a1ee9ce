"""Runs one epoch as one Spark job.

Start with ``engine.py``, which builds the job. ``stages.py`` moves parcels through Spark's shuffle, ``worker.py`` runs
tasks in Spark's Python workers, ``placement.py`` sends each subtask to the executor that has its state. The tasks
themselves are in ``tidemill.runtime.task``. The loop that runs one epoch after the other is
``tidemill.runtime.driver.epoch_loop``.
"""
