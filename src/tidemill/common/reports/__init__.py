"""The reports of a job: checkpoints, failures, hot keys, metrics, the outcome of a dry run.

They are plain data that the runtime fills in and that clients, the REST server and the command line display. They
contain no job logic.
"""
