"""Sources that Spark reads, as DataFrames.

Start in ``source_reader.py``, the interface that each kind of source implements. ``frames.py`` combines the streams of
a job into one frame. ``event_time.py`` and ``stateless.py`` inspect frames.
"""
