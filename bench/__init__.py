"""Benchmarks: compares Tidemill with hand-written PySpark and Spark's own stateful operator (``make bench``)."""
