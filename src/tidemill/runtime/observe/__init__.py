"""Observability of a running job: metrics, logs, hot keys, epoch statistics, failures.

Start with ``metrics.py``. ``metrics.py`` and ``key_sampler.py`` collect data on workers and send it with the ack. The
driver combines the metrics in ``tidemill.runtime.driver.job_metrics``. The registry and the catalog of metrics are in
``tidemill.metrics``, the reports that users see are in ``tidemill.common.reports``.
"""
