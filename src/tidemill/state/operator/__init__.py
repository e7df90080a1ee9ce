"""State by subtask: list state, union list state, broadcast state, and their redistribution when a job is rescaled.

Start with ``operator_state.py``.
"""
