"""The classes whose methods build a program: data streams, keyed, connected, joined and windowed ones.

Start in ``data_stream.py``. A method adds a transformation and returns a stream; nothing runs here.
"""
