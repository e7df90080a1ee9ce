"""Values of metrics at one point in time, as a registry provides them to reporters, the REST server and users."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["HistogramValue", "MetricKind", "MetricScope", "MetricSnapshot", "MetricValue"]


NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


class MetricKind(Enum):
    """The kind of a metric, which determines what its value means."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


class MetricScope(Enum):
    """What a metric describes: the whole job, a task (a chain of operators), or one operator."""

    JOB = "job"
    TASK = "task"
    OPERATOR = "operator"


@dataclass(frozen=True)
class HistogramValue:
    """The recorded values of a histogram: count, sum, minimum, maximum, and buckets.

    ``buckets`` are pairs of an upper bound and the number of values not above it, in ascending order; the last bound is
    infinite. It is empty for a distribution, which records only its minimum and maximum.

    >>> seen = HistogramValue(4, 10.0, 1.0, 4.0, ((1.0, 1), (2.0, 2), (math.inf, 4)))
    >>> seen.mean, seen.quantile(0.5)
    (2.5, 2.0)
    """

    count: int
    sum: float
    min: float
    max: float
    buckets: tuple[tuple[float, int], ...] = ()

    @property
    def mean(self) -> float:
        """The mean, or 0 if no value was recorded."""
        return self.sum / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """An estimate of the quantile at ``share`` (0 to 1), or NaN if there are no buckets."""
        wanted = share * self.count
        lower, below = self.min, 0
        for bound, upto in self.buckets:
            upper = min(bound, self.max)
            if upto >= wanted and upto > below:
                return max(self.min, lower + (upper - lower) * (wanted - below) / (upto - below))
            lower, below = max(upper, self.min), upto
        return math.nan


class MetricValue(NamedTuple):
    """The value of one metric of a job, task or operator, and of one subtask if the metric is reported per subtask.

    ``name`` is Flink's name; for user metrics it is the names of the groups and the metric, separated by dots.
    ``operator`` is the uid of the operator, or of the first operator of a task; ``operator_name`` is its display name.
    ``variables`` are the key-value groups (``add_group(key, value)``). The value of a meter is its rate per second;
    ``events`` is then the number of its events, unless that is a metric of its own.
    """

    scope: MetricScope
    name: str
    kind: MetricKind
    value: float | HistogramValue
    operator: str = ""
    operator_name: str = ""
    subtask: int | str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    events: float | None = None


@dataclass(frozen=True)
class MetricSnapshot:
    """All metrics of a job at one point in time. Counts cover committed epochs.

    >>> read = MetricValue(MetricScope.OPERATOR, "numRecordsIn", MetricKind.COUNTER, 3.0, "count", subtask=0)
    >>> more = read._replace(subtask=1, value=4.0)
    >>> snapshot = MetricSnapshot("id", "my job", 0, (read, more))
    >>> snapshot.get("numRecordsIn", operator="count", subtask=1), snapshot.total("numRecordsIn")
    (4.0, 7.0)
    """

    job_id: str
    job_name: str
    #: Milliseconds since 1970.
    timestamp: int
    values: tuple[MetricValue, ...]

    def __iter__(self) -> Iterator[MetricValue]:
        return iter(self.values)

    def find(
        self,
        name: str,
        *,
        scope: MetricScope | None = None,
        operator: str | None = None,
        subtask: int | None = None,
        variables: Mapping[str, str] = NO_VARIABLES,
    ) -> list[MetricValue]:
        """The values with this name, optionally only those of one scope, operator (by uid), subtask or variables."""
        return [
            value
            for value in self.values
            if value.name == name
            and scope in (None, value.scope)
            and operator in (None, value.operator)
            and subtask in (None, value.subtask)
            and variables.items() <= dict(value.variables).items()
        ]

    def get(
        self,
        name: str,
        *,
        operator: str | None = None,
        subtask: int | None = None,
        variables: Mapping[str, str] = NO_VARIABLES,
    ) -> float | HistogramValue:
        """The value of one metric. Raises KeyError unless exactly one metric matches."""
        found = self.find(name, operator=operator, subtask=subtask, variables=variables)
        if len(found) > 1:  # a task and its first operator may have metrics of the same name: use the operator's
            found = [value for value in found if value.scope is not MetricScope.TASK]
        if len(found) != 1:
            raise KeyError(f"{len(found)} metrics are called {name!r} (operator {operator}, subtask {subtask})")
        return found[0].value

    def total(self, name: str, *, operator: str | None = None, variables: Mapping[str, str] = NO_VARIABLES) -> float:
        """The sum over the subtasks of an operator, or over all operators; 0 if the metric does not exist."""
        found = self.find(name, operator=operator, variables=variables)
        scopes = {value.scope for value in found}
        scope = MetricScope.OPERATOR if MetricScope.OPERATOR in scopes else None
        return float(
            sum(v.value for v in found if scope in (None, v.scope) and not isinstance(v.value, HistogramValue))
        )
