"""What a job tells about itself while it runs: metrics, logs, hot keys, epochs, failures.

``metrics.py`` and ``key_sampler.py`` count on workers; what they found travels with the ack. Start in ``metrics.py``.
"""
