"""The responses of the REST server, as described by OpenAPI. Names are Flink's, with all their spellings.

Times are milliseconds since 1970, durations milliseconds, sizes bytes. Start with ``jobs.py``. Models contain no logic:
they are filled in ``tidemill.ops.rest.resources``.
"""
