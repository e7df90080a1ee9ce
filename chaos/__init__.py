"""A job on a real cluster, while everything around it is killed, filled, slowed, damaged and rescaled at random.

``python -m chaos --minutes 20 --seed 1`` (``make chaos MINUTES=20 SEED=1``) ends with a verdict: what the job put out
and what it holds as state, compared with the truth computed in plain Python.
"""
