"""What a job reports about itself: checkpoints, failures, hot keys, metrics, the outcome of a dry run.

Plain data that the runtime fills in and that clients, the REST server and the command line show. No logic of the job.
"""
