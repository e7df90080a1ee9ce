"""Compiles a program to a plan: which operators share a task, at which parallelism, and how they are connected.

Start with ``compiler.py``, which lists the steps, and ``plan.py``, the result. ``columns.py`` decides which operators
process columns, ``guarantees.py`` what a pipeline guarantees, and ``explain.py`` and ``plan_json.py`` display the plan.

The package consists of pure functions and never calls user code. The input, the program as data, is in
``tidemill.datastream.program``. The plan is run in ``tidemill.runtime``.
"""
