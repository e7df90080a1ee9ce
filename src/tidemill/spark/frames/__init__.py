"""Sources that Spark reads, as DataFrames.

Start with ``source_reader.py``, the interface that each kind of source implements. ``frames.py`` combines the streams
of a job into one frame. ``event_time.py`` and ``stateless.py`` inspect frames. The readers of Kafka and files are in
``tidemill.spark.kafka`` and ``tidemill.spark.files``. The streaming query is run in ``tidemill.spark.streams``.
"""
