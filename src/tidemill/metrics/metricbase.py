"""Metric kinds and the group that creates them; the runtime implements these."""

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
        """The present value."""


class Meter(Metric):
    """A rate: how many events happened per second of the time span it was made with."""

    @abc.abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Count ``value`` events now."""

    @abc.abstractmethod
    def get_count(self) -> int:
        """How many events were marked so far."""


class Distribution(Metric):
    """Count, sum, minimum and maximum of the values it is given."""

    @abc.abstractmethod
    def update(self, value: int) -> None:
        """Take one value."""


class MetricGroup(abc.ABC):
    """Creates metrics under one name scope; asking twice for a name gives the same metric."""

    @abc.abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group below this one; with ``extra``, ``name`` is a variable and ``extra`` its value."""

    @abc.abstractmethod
    def counter(self, name: str) -> Counter:
        """A counter of this name."""

    @abc.abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Report what ``obj`` returns whenever metrics are collected."""

    @abc.abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter of this name."""

    @abc.abstractmethod
    def distribution(self, name: str) -> Distribution:
        """A distribution of this name."""
