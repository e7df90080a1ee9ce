"""Watched directories: the files that each epoch reads, on every engine.

Start with ``watched_files.py`` (all of a job); ``watched_source.py`` is one of them, ``watch_options.py`` its options.
New files are selected in ``tidemill.runtime.driver.file_enumerator``, and the paths that have been read are stored in
``tidemill.runtime.driver.files_read``. How the rows of a file are read is specific to the engine:
``tidemill.spark.files`` and ``tidemill.local.files``.
"""
