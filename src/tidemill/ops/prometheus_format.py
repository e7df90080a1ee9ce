"""The metrics of jobs in Prometheus format.

A name consists of ``tidemill``, the scope (job, task, operator) and the name of the metric; labels have the names that
Flink uses. The names of system counters end in ``_total``. A user-defined counter may decrease, so it is exported as a
gauge. The rate of a meter is a gauge too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric

from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope, MetricSnapshot, MetricValue
from tidemill.metrics.catalog import PER_SECOND, system_metric
from tidemill.metrics.summary import COARSE_BOUNDS

__all__ = ["families_of", "family_name"]

#: Labels that a user variable must not replace.
_LABELS: Final = frozenset(
    {"job_id", "job_name", "task_id", "task_name", "operator_id", "operator_name", "subtask_index", "le", "quantile"}
)


def family_name(scope: MetricScope, name: str) -> str:
    """Return the name of a metric in Prometheus, without a suffix.

    >>> family_name(MetricScope.OPERATOR, "numRecordsIn"), family_name(MetricScope.OPERATOR, "orders.too-late")
    ('tidemill_operator_numRecordsIn', 'tidemill_operator_orders_too_late')
    """
    return f"tidemill_{scope.value}_{re.sub('[^A-Za-z0-9_]', '_', name)}"


def families_of(snapshots: Iterable[MetricSnapshot]) -> list[Metric]:
    """Return the metrics of the jobs, grouped by name."""
    families: dict[tuple[str, str], Metric] = {}
    for snapshot in snapshots:
        for value in snapshot:
            labels = _labels_of(snapshot, value)
            for suffix, kind, sample, number, more in _samples_of(value):
                name = family_name(value.scope, value.name) + suffix
                family = families.get((name, kind))
                if family is None:
                    family = families[name, kind] = Metric(name, _meaning(value), kind)
                family.add_sample(name + sample, {**labels, **more}, number)
    taken: set[str] = set()
    found = []
    for (name, _), family in families.items():
        if name not in taken:  # names of user metrics may differ only in characters that Prometheus does not allow
            taken.add(name)
            found.append(family)
    return found


def _samples_of(value: MetricValue) -> Iterator[tuple[str, str, str, float, Mapping[str, str]]]:
    """Yield samples as (suffix of the family name, kind of the family, suffix of the sample name, value, labels)."""
    number = value.value
    if isinstance(number, HistogramValue):
        kind = "histogram" if number.buckets else "summary"
        for bound, count in _coarse(number):
            yield "", kind, "_bucket", count, {"le": "+Inf" if bound == math.inf else f"{bound:g}"}
        yield "", kind, "_count", number.count, {}
        yield "", kind, "_sum", number.sum, {}
        yield "_min", "gauge", "", number.min, {}
        yield "_max", "gauge", "", number.max, {}
    elif value.kind is MetricKind.COUNTER and system_metric(value.scope, value.name) is not None:
        yield "", "counter", "_total", number, {}
    else:
        yield "", "gauge", "", number, {}
        if value.events is not None:
            yield "_events", "counter", "_total", value.events, {}


def _coarse(value: HistogramValue) -> Iterator[tuple[float, int]]:
    """Yield the cumulative count for each exported bound. The bounds do not depend on the observed values."""
    if not value.buckets:
        return
    known = dict(value.buckets)
    bounds = sorted(known)
    position = count = 0
    for bound in (*sorted(COARSE_BOUNDS), math.inf):
        while position < len(bounds) and bounds[position] <= bound:
            count = known[bounds[position]]
            position += 1
        yield bound, count


def _labels_of(snapshot: MetricSnapshot, value: MetricValue) -> dict[str, str]:
    labels = {"job_id": snapshot.job_id, "job_name": snapshot.job_name}
    if value.scope is not MetricScope.JOB:
        labels[f"{value.scope.value}_id"] = value.operator
        labels[f"{value.scope.value}_name"] = value.operator_name
    if value.subtask is not None:
        labels["subtask_index"] = str(value.subtask)
    for variable, chosen in value.variables:
        label = re.sub("[^A-Za-z0-9_]", "_", variable)
        if label in _LABELS or not re.match("[A-Za-z]", label):
            label = f"user_{label}"
        labels[label] = chosen
    return labels


def _meaning(value: MetricValue) -> str:
    known = system_metric(value.scope, value.name)
    if known is None and value.name.endswith(PER_SECOND):
        known = system_metric(value.scope, value.name.removesuffix(PER_SECOND))
    if known is None:
        return f"{value.name}, defined by a user function"
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", known.meaning) + (f" ({known.unit})" if known.unit else "")
