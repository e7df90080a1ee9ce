"""The driver's side of a job: from its submission to its end.

Start in ``epoch_loop.py``, which takes input and runs epochs, and in ``coordinator.py``, which runs an epoch from its
input to its commit. ``assembly.py`` assembles the parts of a job. ``job.py`` restarts a job after failures. The driver
never handles records.
"""
