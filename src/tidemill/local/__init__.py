"""``execution.target: local``: runs a program in this process, without Spark and without Java.

Start with ``executor.py``, which starts a job. ``engine.py`` runs the production tasks sequentially. The epoch loop,
the tasks and the operators are those of ``tidemill.runtime``. The harnesses for tests are in ``tidemill.testing``.
"""
