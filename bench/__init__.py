"""Benchmarks: Tidemill beside hand-written PySpark and Spark's own stateful operator, in one run (``make bench``)."""
