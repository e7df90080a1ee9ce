"""State files: immutable files of sections, one section for each state of an operator.

Start in ``state_file.py``, which describes the format. Which files make up a checkpoint is not known here.
"""
