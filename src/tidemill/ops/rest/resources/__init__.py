"""The resources of the REST API, one module for each group of paths.

A resource reads the request, queries a job, and returns a model (``tidemill.ops.rest.models``). Start with ``jobs.py``.
The resources are registered in ``tidemill.ops.rest.app``. Checks that apply to all requests are in
``tidemill.ops.rest.guard``.
"""
