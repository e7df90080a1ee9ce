"""The registry of all metrics of one job, on the driver. It is updated once per epoch.

The registry starts no threads and no servers. :meth:`MetricRegistry.snapshot` contains whole epochs: an epoch is either
included completely or not at all. Counts start at zero with the driver, as Flink's do with the job manager. They
continue when a job is restarted within its driver.

The number of subtasks that are reported individually is limited, because a Spark batch may have thousands. The counts
of the others are summed up under ``other``; their gauges are omitted. The total number of metrics is limited too, so
that metrics named after a user or a day do not fill the driver's memory over time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope, MetricSnapshot, MetricValue
from tidemill.metrics.catalog import PER_SECOND, system_metric
from tidemill.metrics.rate import Rate
from tidemill.metrics.summary import Packed, Summary

__all__ = ["OTHER", "MetricPlace", "MetricRegistry"]

log = logging.getLogger(__name__)

#: Represents all subtasks that are not reported individually.
OTHER: Final = "other"
#: Maximum number of metrics of a job, counting each subtask.
_MOST: Final = 100_000
#: Time span of the rates of system metrics in seconds, as in Flink.
_RATE_SPAN: Final = 60


class _All:
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


_ALL: Final = _All()

Gauge = float | Callable[[], float | None]


class MetricPlace(NamedTuple):
    """The place of a metric: its scope, the uid of the operator or of the task's first operator, and the subtask."""

    scope: MetricScope = MetricScope.JOB
    operator: str = ""
    subtask: int | None = None


class _Key(NamedTuple):
    scope: MetricScope
    operator: str
    subtask: int | str | None
    name: str
    variables: tuple[tuple[str, str], ...]


class Series:
    """One counter or meter of a registry. Add to it only within :meth:`MetricRegistry.update`."""

    __slots__ = ("_clock", "is_meter", "rate", "total")

    def __init__(self, rate: Rate | None, is_meter: bool, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.total = 0.0
        self.rate = rate
        self.is_meter = is_meter

    def add(self, increment: float) -> None:
        """Increment the count."""
        if increment:
            self.total += increment
            if self.rate is not None:
                self.rate.mark(self._clock(), self.total)


class MetricRegistry:
    """The metrics of one job. All methods are thread-safe.

    >>> registry = MetricRegistry("id", "my job")
    >>> with registry.update():
    ...     registry.count(MetricPlace(MetricScope.OPERATOR, "check", 0), "rejected", 2)
    ...     registry.gauge(MetricPlace(), "currentEpoch", 7)
    >>> snapshot = registry.snapshot()
    >>> snapshot.get("rejected"), snapshot.get("currentEpoch")
    (2.0, 7.0)
    """

    def __init__(
        self,
        job_id: str,
        job_name: str,
        *,
        most_subtasks: int = 256,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        # configuration
        self.job_id = job_id
        self.job_name = job_name
        self._most_subtasks = most_subtasks
        self._clock = clock
        self._wall_clock = wall_clock
        self._since = clock()
        # transient
        self._lock = threading.RLock()
        self._names: dict[tuple[MetricScope, str], str] = {}
        self._counts: dict[_Key, Series] = {}
        self._gauges: dict[_Key, Gauge] = {}
        self._summaries: dict[_Key, Summary] = {}
        self._full = False

    @contextmanager
    def update(self) -> Iterator[None]:
        """Make all changes within the block visible to other threads atomically."""
        with self._lock:
            yield

    def name(self, scope: MetricScope, operator: str, name: str) -> None:
        """Set the display name of an operator or a task."""
        with self._lock:
            self._names[scope, operator] = name

    def count(self, place: MetricPlace, name: str, increment: float) -> None:
        """Add to a counter."""
        with self._lock:
            self.series(place, name).add(increment)

    def series(
        self, place: MetricPlace, name: str, *, span: int | None = None, variables: tuple[tuple[str, str], ...] = ()
    ) -> Series:
        """A counter, or with ``span`` a meter whose rate covers that many seconds. Frequent callers may keep it."""
        key = self._key(place, name, variables)
        with self._lock:
            found = self._counts.get(key)
            if found is None:
                known = system_metric(place.scope, name)
                rated = span or (_RATE_SPAN if known is not None and known.rated else None)
                since = max(self._since, self._clock() - rated) if rated else 0.0
                found = Series(Rate(rated, since) if rated else None, span is not None, self._clock)
                if self._admits(key):
                    self._counts[key] = found
            return found

    def gauge(self, place: MetricPlace, name: str, value: Gauge, variables: tuple[tuple[str, str], ...] = ()) -> None:
        """Set a gauge. A function is called for each snapshot; if it returns None, the gauge is omitted."""
        key = self._key(place, name, variables)
        if key.subtask != OTHER:
            with self._lock:
                if key in self._gauges or self._admits(key):
                    self._gauges[key] = value

    def observe(self, place: MetricPlace, name: str, value: float, variables: tuple[tuple[str, str], ...] = ()) -> None:
        """Add one value to a histogram."""
        with self._lock:
            self._summary(place, name, variables, spread=True).update(value)

    def summary(
        self, place: MetricPlace, name: str, values: Packed, variables: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Add values to a distribution or histogram."""
        with self._lock:
            self._summary(place, name, variables, spread=values[4] is not None).add(values)

    def _summary(
        self, place: MetricPlace, name: str, variables: tuple[tuple[str, str], ...], *, spread: bool
    ) -> Summary:
        key = self._key(place, name, variables)
        found = self._summaries.get(key)
        if found is None:
            found = Summary(spread=spread)
            if self._admits(key):
                self._summaries[key] = found
        return found

    def _admits(self, key: _Key) -> bool:
        if len(self._counts) + len(self._gauges) + len(self._summaries) < _MOST:
            return True
        if not self._full:
            self._full = True
            log.warning(
                "job %s has %d metrics: %r and all other new metrics are not reported", self.job_id, _MOST, key.name
            )
        return False

    def forget_gauges(self, operators: frozenset[str], width: int) -> None:
        """Remove the gauges of subtasks that no longer exist, because these operators now have ``width`` subtasks."""
        with self._lock:
            for key in list(self._gauges):
                if key.operator in operators and isinstance(key.subtask, int) and key.subtask >= width:
                    del self._gauges[key]

    def snapshot(self, names: Container[str] = _ALL) -> MetricSnapshot:
        """The current values of all metrics, or only of those in ``names``, for frequent callers."""
        now = self._clock()
        values: list[MetricValue] = []
        with self._lock:
            gauges = [(key, gauge) for key, gauge in self._gauges.items() if key.name in names]
            for key, count in self._counts.items():
                if not count.is_meter and key.name in names:
                    values.append(self._value(key, MetricKind.COUNTER, count.total))
                if count.rate is not None:
                    rated = key.name if count.is_meter else key.name + PER_SECOND
                    if rated in names:
                        rate = self._value(key._replace(name=rated), MetricKind.METER, count.rate.at(now, count.total))
                        values.append(rate._replace(events=count.total) if count.is_meter else rate)
            for key, summary in self._summaries.items():
                if key.name in names:
                    values.append(self._value(key, MetricKind.HISTOGRAM, summary.value()))
        for key, gauge in gauges:  # functions are called without the lock, because they may block
            value = gauge() if callable(gauge) else gauge
            if value is not None:
                values.append(self._value(key, MetricKind.GAUGE, value))
        return MetricSnapshot(self.job_id, self.job_name, self._wall_clock(), tuple(values))

    def _key(self, place: MetricPlace, name: str, variables: tuple[tuple[str, str], ...]) -> _Key:
        subtask: int | str | None = place.subtask
        if place.subtask is not None and place.subtask >= self._most_subtasks:
            subtask = OTHER
        return _Key(place.scope, place.operator, subtask, name, variables)

    def _value(self, key: _Key, kind: MetricKind, value: float | HistogramValue) -> MetricValue:
        if not isinstance(value, HistogramValue):
            value = float(value)
        named = self._names.get((key.scope, key.operator), "")
        return MetricValue(key.scope, key.name, kind, value, key.operator, named, key.subtask, key.variables)
