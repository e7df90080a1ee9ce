"""Simulates whole jobs in one process, with faults drawn from a seed: the production coordinator on a fake cluster.

Start with ``simulation.py``; ``checks.py`` has the invariants that are checked after each run. This package is for the
tests of Tidemill itself (``tests/simulation``). Users test their programs with ``tidemill.testing.JobHarness``.
"""
