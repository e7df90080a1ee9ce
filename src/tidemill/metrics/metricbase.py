"""The interfaces of metrics and of the group that creates them. The runtime implements them.

The metrics of a function are sent to the driver at the end of each epoch and take effect if the epoch is committed:
work that failed and was repeated is counted once. Updating a metric costs a few attribute accesses.
"""

from __future__ import annotations

import abc
from collections.abc import Callable


class Metric(abc.ABC):  # noqa: B024 - a common base, as in PyFlink
    """Base class of the metrics that a :class:`MetricGroup` creates."""


class Counter(Metric):
    """A count that can be incremented and decremented."""

    @abc.abstractmethod
    def inc(self, n: int = 1) -> None:
        """Increment by ``n``."""

    @abc.abstractmethod
    def dec(self, n: int = 1) -> None:
        """Decrement by ``n``."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """The count of this instance since it was opened."""


class Meter(Metric):
    """A rate: the number of events per second over a time span."""

    @abc.abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Record ``value`` events."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """The number of events of this instance since it was opened."""


class Distribution(Metric):
    """Count, sum, minimum and maximum of the recorded values."""

    @abc.abstractmethod
    def update(self, value: float) -> None:
        """Record one value."""


class Histogram(Metric):
    """A distribution with buckets, from which quantiles are estimated. As in Flink for Java; PyFlink has none."""

    @abc.abstractmethod
    def update(self, value: float) -> None:
        """Record one value."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """The number of values recorded by this instance since it was opened."""


class MetricGroup(abc.ABC):
    """Creates metrics under one name scope. Requesting the same name twice returns the same metric.

    >>> from tidemill.common import Types
    >>> from tidemill.datastream import MapFunction
    >>> from tidemill.testing import JobHarness
    >>> class Checked(MapFunction):
    ...     def open(self, runtime_context):
    ...         group = runtime_context.get_metrics_group().add_group("orders")
    ...         self.empty = group.counter("empty")
    ...         self.sizes = group.histogram("size")
    ...     def map(self, order):
    ...         self.sizes.update(len(order))
    ...         if not order:
    ...             self.empty.inc()
    ...         return order
    >>> with JobHarness(lambda env, orders: orders.map(Checked()).uid("check"), inputs=["orders"]) as job:
    ...     job.epoch(orders=["ab", "", "abcd"])
    ...     metrics = job.metrics()
    >>> metrics.total("orders.empty"), metrics.get("orders.size", operator="check").max
    (1.0, 4.0)
    """

    @abc.abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Creates a subgroup. With ``extra``, ``name`` is a variable and ``extra`` its value.

        Each value of a variable creates separate metrics: a variable must have few values. Never use user or order ids.
        """

    @abc.abstractmethod
    def counter(self, name: str) -> Counter:
        """Creates a counter with this name."""

    @abc.abstractmethod
    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Registers a gauge, whose value is what ``obj`` returns at the end of each epoch."""

    @abc.abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Creates a meter with this name."""

    @abc.abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Creates a distribution with this name."""

    @abc.abstractmethod
    def histogram(self, name: str) -> Histogram:
        """Creates a histogram with this name."""
