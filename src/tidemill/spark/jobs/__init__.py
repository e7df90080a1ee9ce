"""Runs one epoch as one Spark job.

``engine.py`` builds the job, ``stages.py`` moves parcels through Spark's shuffle, ``worker.py`` runs tasks in Spark's
Python workers, ``placement.py`` sends each subtask to the executor that has its state.
"""
