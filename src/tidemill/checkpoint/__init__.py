"""The epoch protocol and its files: what is committed, who commits it, and what may be deleted.

Start with ``protocol.py`` and ``model.py``: the decisions as pure functions, and the data types they use. ``log.py`` is
the log of manifests, ``restore.py`` reads committed state back, and ``savepoint.py`` copies it. All files are read and
written through ``storage``. State is opaque bytes in this package: the format of state files is defined in
``tidemill.state.files``. The driver calls this package from ``tidemill.runtime.driver``, workers from
``tidemill.runtime.task``.
"""
