"""Unbounded jobs on Spark's streams, which run their epochs inside one Structured Streaming query.

Start with ``streaming.py``. ``query_positions.py`` passes the offsets of each batch to the trackers of the sources, for
example ``tidemill.connectors.kafka.tracker``. The query resumes from a location that is built in
``tidemill.spark.locations``. Jobs without a streaming query are run by ``tidemill.runtime.driver.epoch_loop`` alone.
"""
