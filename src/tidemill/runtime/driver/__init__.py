"""The driver's side of a job: from its submission to its end.

Start in ``epoch_loop.py``, which takes input and runs epochs, and in ``coordinator.py``: an epoch from its input to its
commit. ``assembly.py`` puts the parts of a job together; ``job.py`` starts a job again after failures. Records are
never seen here.
"""
