"""Checkpoint storage: directories and object stores behind one interface.

Start with ``api.py``. ``storages.py`` selects the implementation by URI.
"""
