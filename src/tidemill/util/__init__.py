"""PyFlink's ``util``, for programs that import it: what concerns Java raises an error that says so.

This folder contains only names of PyFlink. Start with ``java_utils.py``; the classes of errors that Tidemill raises are
in ``tidemill.errors``.
"""
