"""Files that Spark reads: all at once, or those of a watched directory, epoch by epoch.

Start in ``format_reader.py``, or for watched directories in ``watched_files.py`` (those of a job),
``watched_source.py`` (one of them) and ``watch_options.py`` (how its options set it up).
"""
