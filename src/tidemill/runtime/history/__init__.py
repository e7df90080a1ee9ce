"""The history of jobs: what remains of a job for people to look at when its driver has ended.

A driver writes the reports of its job, as JSON, to an archive beside the checkpoints: at the start, from time to time,
and at the end. Start with ``job_record.py``, which is what is written. ``archive.py`` has the files, ``recording.py``
takes a record of a job, and ``archiver.py`` is the thread that writes it. Records are served by ``tidemill history``
(``tidemill.ops.cli.history``), which finds them in ``tidemill.ops.rest.archived_jobs``. Nothing here may import
``tidemill.runtime.driver``. Not to be confused with the history of lineages that ``Manifest.history`` identifies.
"""
