"""Metrics in the format of Flink's REST API: by vertex and subtask, with Flink's ids."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, cast

from tidemill.common.reports.metric_value import HistogramValue, MetricScope, MetricSnapshot, MetricValue
from tidemill.config.redaction import redacted
from tidemill.graph.plan import ChainPlan
from tidemill.ops.rest.models.vertices import AggregatedMetric, IoMetrics, MetricInfo, SubtaskPressure, VertexNow

__all__ = ["NOW_METRICS", "Figures", "level_of", "selected"]

_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99)
#: Shares of time above which the backpressure is low and high, as in Flink.
_LOW, _HIGH = 0.1, 0.5
_IO: Final = {
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
    "accumulated-busy-time": "accumulateBusyTimeMs",
    "accumulated-backpressured-time": "accumulateBackPressuredTimeMs",
    "accumulated-idle-time": "accumulateIdleTimeMs",
}


#: The metrics that :meth:`Figures.now` and the rates of jobs use.
NOW_METRICS: Final = frozenset(
    {
        "numRecordsInPerSecond",
        "numRecordsOutPerSecond",
        "busyTimeMsPerSecond",
        "backPressuredTimeMsPerSecond",
        "idleTimeMsPerSecond",
        "currentInputWatermark",
        "currentOutputWatermark",
    }
)


class Figures:
    """The metrics of a job at one time, indexed by vertex."""

    def __init__(self, snapshot: MetricSnapshot) -> None:
        self.timestamp = snapshot.timestamp
        self._by_place: dict[tuple[MetricScope, str], dict[str, list[MetricValue]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for value in snapshot:
            self._by_place[value.scope, value.operator][value.name].append(value)
        self._by_subtask: dict[tuple[str, str], dict[int | str | None, float]] = {}

    def io_metrics(self, chain: ChainPlan, subtask: int | None = None) -> IoMetrics:
        """Return how much a vertex, or one of its subtasks, has read and written."""
        found = {name: self.total(chain, metric, subtask) for name, metric in _IO.items()}
        return cast("IoMetrics", found)

    def total(self, chain: ChainPlan, name: str, subtask: int | None = None) -> float:
        """Return the sum of a metric over the subtasks of a vertex, or the value of one subtask."""
        place = (chain.head.uid, name)
        values = self._by_subtask.get(place)
        if values is None:
            found = self._of(MetricScope.TASK, *place)
            values = {one.subtask: one.value for one in found if not isinstance(one.value, HistogramValue)}
            self._by_subtask[place] = values
        return sum(values.values()) if subtask is None else values.get(subtask, 0.0)

    def pressures(self, chain: ChainPlan, width: int) -> list[SubtaskPressure]:
        """Return how busy, backpressured and idle each subtask of a vertex is."""
        found = []
        for subtask in range(width):
            held, busy, idle = (
                round(self.total(chain, f"{kind}TimeMsPerSecond", subtask) / 1000, 4)
                for kind in ("backPressured", "busy", "idle")
            )
            found.append(
                SubtaskPressure(
                    subtask=subtask, backpressureLevel=level_of(held), ratio=held, busyRatio=busy, idleRatio=idle
                )
            )
        return found

    def watermarks(self, chain: ChainPlan) -> list[MetricInfo]:
        """Return the last watermark that each subtask of a vertex received or, for a source, that its chain sent."""
        found = self._of(MetricScope.OPERATOR, chain.head.uid, "currentInputWatermark")
        for operator in reversed(chain.operators):
            found = found or self._of(MetricScope.OPERATOR, operator.uid, "currentOutputWatermark")
        return [
            MetricInfo(id=f"{value.subtask}.currentInputWatermark", value=_number(value.value))
            for value in found
            if not isinstance(value.value, HistogramValue)
        ]

    def now(self, chain: ChainPlan, vertex: str, width: int) -> VertexNow:
        """Return the current metrics of a vertex.

        These are its rates over all subtasks, the highest busy and backpressured shares of its subtasks, and their
        lowest watermark.
        """
        shares = self.pressures(chain, width)
        marks = [int(float(mark["value"])) for mark in self.watermarks(chain)]
        return {
            "id": vertex,
            "parallelism": width,
            "records-in-per-second": round(self.total(chain, "numRecordsInPerSecond"), 3),
            "records-out-per-second": round(self.total(chain, "numRecordsOutPerSecond"), 3),
            "busy": max((one["busyRatio"] for one in shares), default=0.0),
            "backpressure": max((one["ratio"] for one in shares), default=0.0),
            "watermark": min(marks, default=None),
        }

    def state_entries(self) -> dict[tuple[str, str], int]:
        """Return the number of committed entries by operator and state, if known."""
        found: dict[tuple[str, str], int] = defaultdict(int)
        for (scope, operator), names in self._by_place.items():
            if scope is MetricScope.OPERATOR:
                for value in names.get("stateEntries", ()):
                    if not isinstance(value.value, HistogramValue):
                        found[operator, dict(value.variables).get("state", "")] += int(value.value)
        return dict(found)

    def texts(self, chain: ChainPlan | None) -> dict[str, str]:
        """Return the metrics of the job, or of a vertex, by id.

        For example ``currentEpoch``, ``0.numRecordsIn``, ``0.Count.numRecordsIn``.
        """
        return {name: text for value in self._all_of(chain) for name, text in _texts(value)}

    def aggregated(self, chain: ChainPlan, wanted: str | None, kinds: str) -> list[AggregatedMetric]:
        """Aggregate the ``wanted`` metrics of a vertex over its subtasks; ``kinds`` are of min, max, avg, sum."""
        values: dict[str, list[float]] = defaultdict(list)
        for value in self._all_of(chain):
            for name, text in _texts(value._replace(subtask=None)):
                values[name].append(float(text))
        if wanted is None:
            return [AggregatedMetric(id=name) for name in sorted(values)]
        asked = kinds.split(",")
        answer = []
        for name in wanted.split(","):
            if found := [value for value in values.get(name, ()) if math.isfinite(value)]:
                whole = {"min": min(found), "max": max(found), "avg": sum(found) / len(found), "sum": sum(found)}
                shown = {kind: number for kind, number in whole.items() if kind in asked}
                answer.append(cast("AggregatedMetric", {"id": name, **shown}))
        return answer

    def _of(self, scope: MetricScope, operator: str, name: str) -> list[MetricValue]:
        place = self._by_place.get((scope, operator))
        return [] if place is None else place.get(name, [])

    def _all_of(self, chain: ChainPlan | None) -> Iterable[MetricValue]:
        places = [(MetricScope.JOB, "")]
        if chain is not None:
            places = [(MetricScope.OPERATOR, operator.uid) for operator in chain.operators]
            places.append((MetricScope.TASK, chain.head.uid))
        for place in places:
            for values in self._by_place.get(place, {}).values():
                yield from values


def level_of(share: float) -> str:
    """Return the backpressure level.

    >>> level_of(0.05), level_of(0.2), level_of(0.9)
    ('ok', 'low', 'high')
    """
    return "high" if share > _HIGH else "low" if share > _LOW else "ok"


def selected(texts: dict[str, str], wanted: str | None) -> list[MetricInfo]:
    """Return the ids of all metrics. With ``wanted``, comma-separated ids, return those metrics with their values."""
    if wanted is None:
        return [MetricInfo(id=name) for name in sorted(texts)]
    return [MetricInfo(id=name, value=texts[name]) for name in wanted.split(",") if name in texts]


def _texts(value: MetricValue) -> Iterator[tuple[str, str]]:
    parts = [] if value.subtask is None else [str(value.subtask)]
    if value.scope is MetricScope.OPERATOR:
        parts.append(_name(value.operator_name or value.operator))
    for name, of in value.variables:
        parts += [name, of]
    name = ".".join([*parts, value.name]).replace(" ", "_").replace(",", "_")
    if not isinstance(value.value, HistogramValue):
        yield name, _number(value.value)
        return
    seen = value.value
    yield f"{name}_count", _number(seen.count)
    for what, number in (("min", seen.min), ("max", seen.max), ("mean", seen.mean)):
        if math.isfinite(number):
            yield f"{name}_{what}", _number(number)
    if seen.count and seen.buckets:
        for share in _QUANTILES:
            yield f"{name}_p{share * 100:.0f}", _number(seen.quantile(share))


@lru_cache(1024)
def _name(operator: str) -> str:
    return redacted(operator)


def _number(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)
