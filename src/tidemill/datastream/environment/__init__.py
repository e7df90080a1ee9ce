"""Where a program begins: the execution environment, its settings, and how streams start.

Start in ``stream_execution_environment.py``.
"""
