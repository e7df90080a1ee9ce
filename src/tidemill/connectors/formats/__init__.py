"""Serialization formats of records: JSON, CSV, Avro, Parquet, ORC.

There is one module for each format. PyFlink's import paths are in ``tidemill.datastream.formats``.
"""
