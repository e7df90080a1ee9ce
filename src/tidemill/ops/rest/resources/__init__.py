"""The resources of the REST API, one module for each group of paths.

A resource reads the request, asks a job, and returns a model (``tidemill.ops.rest.models``). Which paths there are is
in ``tidemill.ops.rest.app``.
"""
