"""The metric interfaces for user functions, from ``RuntimeContext.get_metrics_group()`` (PyFlink's ``metrics``).

Start with ``metricbase.py``. The package also contains the :mod:`registry <tidemill.metrics.registry>` on the driver,
the :mod:`catalog <tidemill.metrics.catalog>` of system metrics, and
:class:`~tidemill.metrics.reporter.MetricReporter`. Workers count metrics in ``tidemill.runtime.observe.metrics``, and
the driver collects them in ``tidemill.runtime.driver.job_metrics``. The Prometheus endpoint is
``tidemill.ops.prometheus``.
"""

from __future__ import annotations

from tidemill.metrics.metricbase import Counter, Distribution, Histogram, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Histogram", "Meter", "Metric", "MetricGroup"]
