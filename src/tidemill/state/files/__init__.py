"""State files: immutable files of sections, one section for each state of an operator.

Start with ``state_file.py``, which describes the format. This package does not know which files make up a checkpoint.
"""
