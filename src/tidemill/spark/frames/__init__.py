"""Sources that Spark reads, as DataFrames.

Start in ``source_reader.py``: what each kind of source must say. ``frames.py`` makes one frame of the streams of a job;
``event_time.py`` and ``stateless.py`` look at what a frame does.
"""
