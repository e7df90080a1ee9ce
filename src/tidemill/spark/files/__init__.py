"""Files that Spark reads: bounded input, or watched directories whose new files are read epoch by epoch.

Start with ``format_reader.py``. For watched directories, start with ``watched_files.py`` (all of a job),
``watched_source.py`` (one of them) and ``watch_options.py`` (how its options configure it). The files that were read
are tracked in ``tidemill.runtime.driver.files_read``. The file sink does not use Spark: it is
``tidemill.connectors.file_system``.
"""
