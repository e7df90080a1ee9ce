"""Files that Spark reads: bounded input, or watched directories whose new files are read epoch by epoch.

Start in ``format_reader.py``. For watched directories, start in ``watched_files.py`` (all of a job),
``watched_source.py`` (one of them) and ``watch_options.py`` (how its options configure it).
"""
