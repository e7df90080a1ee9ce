"""Driver processes on this machine: their records, the programs they run, how to start them and send requests.

Start with ``records.py``. The driver of a job itself, with its epoch loop, is ``tidemill.runtime.driver``. The commands
that use this package are in ``tidemill.ops.cli``.
"""
