"""The driver's side of a job: from its submission to its end.

Start with ``epoch_loop.py``, which takes input and runs epochs, and ``coordinator.py``, which runs an epoch from its
input to its commit. ``assembly.py`` assembles the parts of a job. ``job.py`` restarts a job after failures.

The driver does not process records: sources are read and operators run on workers (``tidemill.runtime.task``). Records
pass through the driver in two cases only. The elements of ``from_collection`` are kept there and sent with their
splits. Committables may contain records, as those of ``print`` and ``execute_and_collect`` do.
"""
