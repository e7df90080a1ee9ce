"""Serialization formats of records: JSON, CSV, Avro, Parquet, ORC.

There is one module for each format. Start with ``json.py``. Formats of whole part files are in
``tidemill.connectors.file_system``, and the storage of state is in ``tidemill.state.codecs``. PyFlink's import paths
are in ``tidemill.datastream.formats``.
"""
