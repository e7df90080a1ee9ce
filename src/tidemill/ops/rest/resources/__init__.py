"""The resources of the REST API, one module for each group of paths.

A resource reads the request, queries a job, and returns a model (``tidemill.ops.rest.models``). The resources are
registered in ``tidemill.ops.rest.app``.
"""
