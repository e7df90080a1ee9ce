"""State files: immutable files of sections, one section for each state of an operator.

Start with ``state_file.py``, which describes the format. This package does not know which files make up a checkpoint:
manifests (``tidemill.checkpoint.manifest``) refer to them. Values are converted to columns in
``tidemill.state.codecs``.
"""
