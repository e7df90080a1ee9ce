"""Files that the local engine reads itself, with the values that Spark would read.

Start with ``formats.py``, which maps a source to the format of its files. ``reader.py`` reads the files of watched
directories, ``stored_files.py`` bounded sources. A format implements the interface in ``format.py``.
``text_values.py`` and ``json_values.py`` convert single values. Which files an epoch reads is decided in
``tidemill.runtime.watched``. ``tests/unit/local/test_readings.py`` compares values with those that Spark has read.
"""
