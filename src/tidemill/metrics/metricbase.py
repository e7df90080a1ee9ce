"""Metric kinds and the group that creates them; the runtime implements these.

What a function counts is sent to the driver with the end of each epoch, and counts there if the epoch is committed:
work that failed and was done again is counted once. To update a metric costs a few attribute accesses.
"""

from __future__ import annotations

import abc
from collections.abc import Callable


class Metric(abc.ABC):  # noqa: B024 - a common base, as in PyFlink
    """Base of everything a :class:`MetricGroup` hands out."""


class Counter(Metric):
    """A number that goes up and down."""

    @abc.abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add ``n``."""

    @abc.abstractmethod
    def dec(self, n: int = 1) -> None:
        """Take ``n`` away."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """What this instance has counted since it was opened."""


class Meter(Metric):
    """A rate: how many events happened per second of the time span it was made with."""

    @abc.abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Count ``value`` events now."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """How many events this instance has marked since it was opened."""


class Distribution(Metric):
    """Count, sum, minimum and maximum of the values it is given."""

    @abc.abstractmethod
    def update(self, value: float) -> None:
        """Take one value."""


class Histogram(Metric):
    """A distribution that also knows how the values are spread: for quantiles. Tidemill's own, as in Flink for Java."""

    @abc.abstractmethod
    def update(self, value: float) -> None:
        """Take one value."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """How many values this instance has taken since it was opened."""


class MetricGroup(abc.ABC):
    """Creates metrics under one name scope; asking twice for a name gives the same metric.

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
        """A group below this one; with ``extra``, ``name`` is a variable and ``extra`` its value.

        Each value of a variable makes metrics of its own: it must be one of a few, never a user or an order.
        """

    @abc.abstractmethod
    def counter(self, name: str) -> Counter:
        """A counter of this name."""

    @abc.abstractmethod
    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Report what ``obj`` returns at the end of each epoch."""

    @abc.abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter of this name."""

    @abc.abstractmethod
    def distribution(self, name: str) -> Distribution:
        """A distribution of this name."""

    @abc.abstractmethod
    def histogram(self, name: str) -> Histogram:
        """A histogram of this name."""
