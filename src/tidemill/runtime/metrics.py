"""Metrics of an operator instance: counted in the worker, sent with the ack, added up on the driver."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.metrics import Counter, Distribution, Meter, MetricGroup


class _Count(Counter):
    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        self.count += n

    def dec(self, n: int = 1) -> None:
        self.count -= n

    def get_count(self) -> int:
        return self.count


class _Events(Meter):
    def __init__(self) -> None:
        self.count = 0

    def mark_event(self, value: int = 1) -> None:
        self.count += value

    def get_count(self) -> int:
        return self.count


class _Summary(Distribution):
    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.least: int | None = None
        self.most: int | None = None

    def update(self, value: int) -> None:
        self.count += 1
        self.total += value
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)


class _Group(MetricGroup):
    def __init__(self, metrics: OperatorMetrics, scope: str) -> None:
        self._metrics = metrics
        self._scope = scope

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        return _Group(self._metrics, f"{self._scope}{name}.{extra + '.' if extra else ''}")

    def counter(self, name: str) -> Counter:
        return self._metrics.counters.setdefault(self._scope + name, _Count())

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        self._metrics.gauges[self._scope + name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._metrics.meters.setdefault(self._scope + name, _Events())

    def distribution(self, name: str) -> Distribution:
        return self._metrics.distributions.setdefault(self._scope + name, _Summary())


class OperatorMetrics:
    """All metrics of one operator instance; user metrics under their own names, ours under Flink's."""

    def __init__(self) -> None:
        self.counters: dict[str, _Count] = {}
        self.gauges: dict[str, Callable[[], int]] = {}
        self.meters: dict[str, _Events] = {}
        self.distributions: dict[str, _Summary] = {}
        self.group: MetricGroup = _Group(self, "")
        self._sent: dict[str, float] = {}

    def undo_point(self) -> Callable[[], None]:
        """A function that makes all counts what they are now."""
        counting: list[_Count | _Events] = [*self.counters.values(), *self.meters.values()]
        counts = [(metric, metric.count) for metric in counting]
        summaries = [(summary, dict(vars(summary))) for summary in self.distributions.values()]

        def restore() -> None:
            for metric, count in counts:
                metric.count = count
            for summary, state in summaries:
                vars(summary).update(state)

        return restore

    def increments(self) -> dict[str, float]:
        """What was counted since the last call (counters, meters), and the present value of gauges."""
        totals: dict[str, float] = {name: counter.count for name, counter in self.counters.items()}
        totals.update({name: meter.count for name, meter in self.meters.items()})
        for name, summary in self.distributions.items():
            totals[f"{name}_count"] = summary.count
            totals[f"{name}_sum"] = summary.total
        grown = {name: total - self._sent.get(name, 0) for name, total in totals.items()}
        self._sent = totals
        grown.update({name: float(gauge()) for name, gauge in self.gauges.items()})
        return {name: value for name, value in grown.items() if value}
