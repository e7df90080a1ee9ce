"""Where checkpoints are stored: directories and object stores behind one contract.

Start in ``api.py``. ``storages.py`` chooses by the URI.
"""
