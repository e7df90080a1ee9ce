"""Files that Spark reads: bounded input, or watched directories whose new files are read epoch by epoch.

Start with ``format_reader.py``. For watched directories, start with ``watch_options.py`` and ``watched_rows.py``: which
files an epoch reads is decided in ``tidemill.runtime.watched``. The file sink does not use Spark: it is
``tidemill.connectors.file_system``.
"""
