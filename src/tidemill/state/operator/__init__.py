"""State by subtask: list state, union list state, broadcast state, and their redistribution on rescaling.

Start with ``operator_state.py``. State by key is in ``tidemill.state.keyed``. Functions use operator state through
``tidemill.runtime.operators.checkpointed`` and ``tidemill.runtime.operators.broadcast``.
"""
