"""The classes whose methods build a program: data streams, and keyed, connected, joined and windowed streams.

Start with ``data_stream.py``. A method adds a transformation (``tidemill.datastream.program``) and returns a stream; it
does not run anything. The methods that create the first stream are in ``tidemill.datastream.environment``.
"""
