"""The command line ``tidemill``: Flink's commands, for the durable files of jobs and the drivers on this machine.

Start with ``app.py``, which registers every command. Each command is a function in one of the other modules, a
short one in ``page.py``. ``arguments.py``, ``output.py`` and ``failures.py`` are shared by all commands. Processes are
started and drivers are called in ``tidemill.ops.drivers``, and committed state is read in
``tidemill.state_processor``.
"""
