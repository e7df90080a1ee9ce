"""Checkpoint storage: directories and object stores behind one interface.

Start with ``api.py``. ``storages.py`` selects the implementation by URI. This package stores and lists bytes by name.
Names are built in ``tidemill.checkpoint.names``, and formats are defined in ``tidemill.checkpoint.frame`` and
``tidemill.state.files``. The client of object stores is ``tidemill.connectors.object_store``.
"""
