"""``execution.target: local``: runs a program in this process, without Spark and without Java.

``executor.py`` starts a job, ``engine.py`` runs the production tasks sequentially.
"""
