"""The window operators: they assign records to windows, and evaluate a window when its trigger fires.

Start with ``operator.py``, the general operator; ``merging.py`` extends it for session windows. ``aligned.py`` and
``sessions.py`` are faster operators for the common cases, and ``factory.py`` selects one. Assigners, triggers and
evictors are in ``tidemill.datastream.window``. The contents of windows are keyed state (``tidemill.state.keyed``).
"""
