"""Chaos tests: a job runs on a real cluster while random faults occur.

Processes are killed, disks are filled, storage is slowed down, files are damaged, and the job is rescaled.
``python -m chaos --minutes 20 --seed 1`` (``make chaos MINUTES=20 SEED=1``) ends with a verdict: the output and state
of the job, compared with the expected results computed in plain Python.
"""
