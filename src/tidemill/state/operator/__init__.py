"""State by subtask: list state, union list state, broadcast state, and how it moves when a job is rescaled.

Start in ``operator_state.py``.
"""
