"""``tidemill port``: rewrites the imports of PyFlink programs, and reports what of them works here.

A program is analysed without running it (``analysis.py``) and compiled in a process of its own (``compiling.py``),
which starts no job. Nothing here lists what Tidemill has: names are looked up in its modules. What behaves differently
is data in ``differences.py``.

Start with ``programs.py``. The command itself is in ``tidemill.ops.cli``.
"""
