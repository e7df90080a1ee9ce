"""From a program to a plan: which operators run in one task, at which parallelism, and how they are connected.

Start in ``compiler.py``, which lists the steps. Pure functions over data: user code is not called here.
"""
