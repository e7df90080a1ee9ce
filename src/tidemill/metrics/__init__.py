"""The metric interfaces a user function sees through ``RuntimeContext.get_metrics_group()`` (PyFlink's ``metrics``).

Beside them: the :mod:`registry <tidemill.metrics.registry>` on the driver, the
:mod:`catalog <tidemill.metrics.catalog>` of what Tidemill itself measures, and
:class:`~tidemill.metrics.reporter.MetricReporter`.
"""

from __future__ import annotations

from tidemill.metrics.metricbase import Counter, Distribution, Histogram, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Histogram", "Meter", "Metric", "MetricGroup"]
