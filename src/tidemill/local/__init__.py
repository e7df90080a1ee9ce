"""``execution.target: local``: a program in this process, without Spark and without Java.

``executor.py`` starts a job, ``engine.py`` runs the production tasks one after the other.
"""
