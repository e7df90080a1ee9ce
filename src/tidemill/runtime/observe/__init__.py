"""Observability of a running job: metrics, logs, hot keys, epoch statistics, failures.

``metrics.py`` and ``key_sampler.py`` collect data on workers and send it with the ack. Start in ``metrics.py``.
"""
