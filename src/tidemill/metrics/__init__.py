"""The metric interfaces a user function sees through ``RuntimeContext.get_metrics_group()`` (PyFlink's ``metrics``)."""

from __future__ import annotations

from tidemill.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
