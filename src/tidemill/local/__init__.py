"""``execution.target: local``: runs a program in this process, without Spark and without Java.

Start with ``executor.py``, which starts a job. ``engine.py`` runs the production tasks sequentially. ``sources.py``
selects the readers of sources that Spark would read: ``files`` and ``kafka``. Other sources are read by workers, as on
Spark (``tidemill.connectors``). The epoch loop, the tasks and the operators are those of ``tidemill.runtime``. The
harnesses for tests are in ``tidemill.testing``.
"""
