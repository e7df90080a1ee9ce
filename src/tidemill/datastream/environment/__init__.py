"""The execution environment, its settings, and its methods that create streams.

Start with ``stream_execution_environment.py``. ``sources.py`` has ``from_collection``, ``from_source`` and the other
methods that create streams. Jobs are not run here: ``tidemill.datastream.program.execution`` submits a program to an
executor.
"""
