"""Whole jobs in one process with faults that a seed draws: the production coordinator on a simulated cluster.

Start in ``simulation.py``; ``checks.py`` has what must hold afterwards. For the tests of Tidemill itself.
"""
