"""How records become bytes of a format and back: JSON, CSV, Avro, Parquet, ORC.

One module for each format. PyFlink's import paths are in ``tidemill.datastream.formats``.
"""
