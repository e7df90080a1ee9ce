"""Metrics of an operator instance: counted in the worker, sent with the ack, collected by the driver.

An instance sends what it has counted since its last ack. A chain continues only if the epoch of that ack was
committed. The totals therefore contain exactly the counts of committed epochs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tidemill.common.reports.metric_value import MetricScope
from tidemill.metrics import Counter, Distribution, Histogram, Meter, MetricGroup
from tidemill.metrics.catalog import PER_SECOND, system_metric
from tidemill.metrics.summary import Packed, Summary
from tidemill.runtime.observe.key_sampler import KeySample

log = logging.getLogger(__name__)

#: The maximum number of metrics of one operator's functions. More would indicate a group per user or order.
MOST_METRICS: Final = 1000

M = TypeVar("M")


class CountMetric(Counter, Meter):
    """A counter. It also serves as a meter: the driver computes the rate."""

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        self.count += n

    def dec(self, n: int = 1) -> None:
        self.count -= n

    def mark_event(self, value: int = 1) -> None:
        self.count += value

    def get_count(self) -> int:
        return self.count


class ValuesMetric(Distribution, Histogram):
    """Values that are summarized until the next ack."""

    def __init__(self, *, spread: bool) -> None:
        self.summary = Summary(spread=spread)
        self.update = self.summary.update  # type: ignore[method-assign]  # spares a call for each value
        self._sent = 0

    def update(self, value: float) -> None:
        self.summary.update(value)

    def get_count(self) -> int:
        return self._sent + self.summary.count

    def take(self) -> Packed:
        """The summary of the values since the last call."""
        packed = self.summary.packed()
        self._sent += self.summary.count
        self.summary.clear()
        return packed

    def restore(self, packed: Packed) -> None:
        """Replace the values since the last :meth:`take` with an earlier summary."""
        self.summary.clear()
        self.summary.add(packed)


class OperatorReport:
    """The measurements of one operator instance in an epoch.

    Metric names consist of the group names and the metric's own name, separated by dots. ``counts`` are increments;
    those that are also in ``spans`` are meters. ``variables`` contains, for metrics below a group with a name and a
    value, the metric name without the value, and the variables. ``states`` contains the number of entries of each
    state and, where known, of bytes. ``hot_keys`` is set only in some reports. ``queryable`` contains the names under
    which states can be queried, with the names of the states.
    """

    __slots__ = ("counts", "gauges", "hot_keys", "queryable", "spans", "states", "summaries", "uid", "variables")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.counts: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self.hot_keys: KeySample | None = None
        self.queryable: tuple[tuple[str, str], ...] = ()
        self.spans: dict[str, int] = {}
        self.states: dict[str, tuple[int, int | None]] = {}
        self.summaries: dict[str, Packed] = {}
        self.variables: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}

    def committed(self) -> dict[str, float]:
        """The values that a manifest stores: everything that can be summed over subtasks and epochs."""
        found = dict(self.counts)
        for name, (count, total, *_) in self.summaries.items():
            found[f"{name}_count"] = count
            found[f"{name}_sum"] = total
        return found


class OperatorMetrics:
    """All metrics of one operator instance: ``group`` is for user functions, the rest for the operator itself."""

    def __init__(self, where: str) -> None:
        # configuration
        self._where = where
        self.group: MetricGroup = _Group(self, (), ())
        # transient
        self.counters: dict[str, CountMetric] = {}
        self.gauges: dict[str, Callable[[], float]] = {}
        self.meters: dict[str, tuple[CountMetric, int]] = {}
        self.values: dict[str, ValuesMetric] = {}
        self.variables: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._sent: dict[str, int] = {}
        self._told: set[str] = set()

    def counter(self, name: str) -> CountMetric:
        """A counter of the operator itself."""
        return self.counters.setdefault(name, CountMetric())

    def admits(self, identifier: str) -> bool:
        """Whether a function may register another metric with this name. The reason for a refusal is logged once."""
        kinds: tuple[dict[str, Any], ...] = (self.counters, self.gauges, self.meters, self.values)
        if is_system_name(identifier):
            self._tell(identifier, "the operator itself has a metric with this name")
        elif any(identifier in kind for kind in kinds):
            self._tell(identifier, "a metric of another kind has the same name")
        elif sum(map(len, kinds)) >= MOST_METRICS:
            reason = (
                f"the operator already has {MOST_METRICS}. A group or name must not contain a key, a user or a time"
            )
            self._tell(identifier, reason, once_for="")
        else:
            return True
        return False

    def _tell(self, identifier: str, reason: str, once_for: str | None = None) -> None:
        once_for = identifier if once_for is None else once_for
        if once_for not in self._told:
            self._told.add(once_for)
            log.warning("%s: metric %r is not reported: %s", self._where, identifier, reason)

    def undo_point(self) -> Callable[[], None]:
        """Return a function that resets all counts to their current values."""
        counting = [*self.counters.values(), *(meter for meter, _ in self.meters.values())]
        counts = [(metric, metric.count) for metric in counting]
        summaries = [(values, values.summary.packed()) for values in self.values.values()]

        def restore() -> None:
            for metric, count in counts:
                metric.count = count
            for values, packed in summaries:
                values.restore(packed)

        return restore

    def report(self, uid: str) -> OperatorReport:
        """The counts since the last call, and the current values of gauges."""
        report = OperatorReport(uid)
        totals = {name: counter.count for name, counter in self.counters.items()}
        for name, (meter, span) in self.meters.items():
            totals[name] = meter.count
            report.spans[name] = span
        sent, self._sent = self._sent, totals
        report.counts = {name: total - sent.get(name, 0) for name, total in totals.items()}
        report.summaries = {name: values.take() for name, values in self.values.items() if values.summary.count}
        for name, gauge in self.gauges.items():
            value = self._asked(name, gauge)
            if value is not None:
                report.gauges[name] = value
        report.variables = self.variables
        return report

    def _asked(self, name: str, gauge: Callable[[], float]) -> float | None:
        """The value of a user-defined gauge; None if its function raises, which must not fail the job."""
        try:
            return float(gauge())
        except Exception as error:
            self._tell(name, f"its function raised {type(error).__name__}: {error}")
            return None


class _Group(MetricGroup):
    def __init__(
        self, metrics: OperatorMetrics, path: tuple[str, ...], variables: tuple[tuple[str, str, int], ...]
    ) -> None:
        """``variables`` are (name, value, position of the value in the path)."""
        self._metrics = metrics
        self._path = path
        self._variables = variables

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        if extra is None:
            return _Group(self._metrics, (*self._path, str(name)), self._variables)
        variable = (str(name), str(extra), len(self._path) + 1)
        return _Group(self._metrics, (*self._path, str(name), str(extra)), (*self._variables, variable))

    def counter(self, name: str) -> Counter:
        return self._registered(self._metrics.counters, name, CountMetric)

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        identifier = self._identifier(name)
        if identifier in self._metrics.gauges:
            self._metrics.gauges[identifier] = obj
        else:
            self._registered(self._metrics.gauges, name, lambda: obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._registered(self._metrics.meters, name, lambda: (CountMetric(), max(1, time_span_in_seconds)))[0]

    def distribution(self, name: str) -> Distribution:
        return self._registered(self._metrics.values, name, lambda: ValuesMetric(spread=False))

    def histogram(self, name: str) -> Histogram:
        return self._registered(self._metrics.values, name, lambda: ValuesMetric(spread=True))

    def _registered(self, metrics: dict[str, M], name: str, make: Callable[[], M]) -> M:
        """The metric with a name. A metric that is not reported is still returned, so that the function can use it."""
        identifier = self._identifier(name)
        found = metrics.get(identifier)
        if found is not None and not is_system_name(identifier):
            return found
        made = make()
        if self._metrics.admits(identifier):
            metrics[identifier] = made
            if self._variables:
                self._metrics.variables[identifier] = self._logical(name)
        return made

    def _identifier(self, name: str) -> str:
        return ".".join((*self._path, name))

    def _logical(self, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The name of a metric without the values of variables, and the variables with their values."""
        values = {position for _, _, position in self._variables}
        path = [part for position, part in enumerate(self._path) if position not in values]
        return ".".join((*path, name)), tuple((variable, value) for variable, value, _ in self._variables)


def is_system_name(name: str) -> bool:
    """Whether an operator itself has a metric with this name."""
    known = system_metric(MetricScope.OPERATOR, name)
    if known is None and name.endswith(PER_SECOND):
        known = system_metric(MetricScope.OPERATOR, name.removesuffix(PER_SECOND))
    return known is not None
