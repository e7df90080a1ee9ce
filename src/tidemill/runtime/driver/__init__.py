"""The driver's side of a job: from its submission to its end.

Start with ``epoch_loop.py``, which takes input and runs epochs, and ``coordinator.py``, which runs an epoch from its
input to its commit. ``assembly.py`` assembles the parts of a job. ``job.py`` restarts a job after failures.
``checkpointing.py`` determines which epochs are checkpoints, ``savepoints.py`` takes savepoints, ``commits.py`` commits
sinks. ``snapshots.py`` has no part in a checkpoint: it merges the files of earlier ones. ``file_enumerator.py`` and
``files_read.py`` select and remember files for ``tidemill.runtime.watched``.

The driver does not process records: sources are read and operators run on workers (``tidemill.runtime.task``). Records
reach the driver only inside splits and committables. Splits of ``from_collection`` contain its elements, and
committables of ``print`` and ``execute_and_collect`` contain the results.
"""
