"""The driver's side of a job: from its submission to its end.

Start with ``epoch_loop.py``, which takes input and runs epochs, and ``coordinator.py``, which runs an epoch from its
input to its commit. ``assembly.py`` assembles the parts of a job. ``job.py`` restarts a job after failures.

The driver does not process records: sources are read and operators run on workers (``tidemill.runtime.task``). Records
reach the driver only inside splits and committables. Splits of ``from_collection`` contain its elements, and
committables of ``print`` and ``execute_and_collect`` contain the results.
"""
