"""Metrics as a moment shows them: what a registry hands to reporters, REST and users."""

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
    """What a value means."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


class MetricScope(Enum):
    """What a metric is of: the whole job, a task (a chain of operators), or one operator."""

    JOB = "job"
    TASK = "task"
    OPERATOR = "operator"


@dataclass(frozen=True)
class HistogramValue:
    """Values that were seen: how many, their sum, the extremes, and how they are spread.

    ``buckets`` are (upper bound, how many values are at most that), with rising bounds, the last one infinite. It is
    empty for a distribution, which knows no more than its extremes.

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
        """The mean, 0 if nothing was seen."""
        return self.sum / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """About the value that this share of all values does not exceed; NaN where the spread is not known."""
        wanted = share * self.count
        lower, below = self.min, 0
        for bound, upto in self.buckets:
            upper = min(bound, self.max)
            if upto >= wanted and upto > below:
                return max(self.min, lower + (upper - lower) * (wanted - below) / (upto - below))
            lower, below = max(upper, self.min), upto
        return math.nan


class MetricValue(NamedTuple):
    """One metric of one job, task or operator, and of one subtask where each has its own.

    ``name`` is Flink's, or for user metrics the names of their groups and their own, with dots between. ``operator`` is
    the uid of the operator, for a task that of its first one; ``operator_name`` is what people call it. ``variables``
    are what groups of two names (``add_group(key, value)``) stand for. The value of a meter is its rate per second;
    ``events`` is then the number of its events, where that is not a metric of its own.
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
    """All metrics of a job at one moment; counts are those of committed epochs.

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
        """The values of this name, all of them or those of one scope, operator (by uid), subtask and variables."""
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
        """The value of one metric. Raises KeyError if there is none, or more than one, of this description."""
        found = self.find(name, operator=operator, subtask=subtask, variables=variables)
        if len(found) > 1:  # a task and its first operator may have metrics of one name: the operator's is meant
            found = [value for value in found if value.scope is not MetricScope.TASK]
        if len(found) != 1:
            raise KeyError(f"{len(found)} metrics are called {name!r} (operator {operator}, subtask {subtask})")
        return found[0].value

    def total(self, name: str, *, operator: str | None = None, variables: Mapping[str, str] = NO_VARIABLES) -> float:
        """The sum over the subtasks of an operator, or over all operators; 0 if there is no such metric."""
        found = self.find(name, operator=operator, variables=variables)
        scopes = {value.scope for value in found}
        scope = MetricScope.OPERATOR if MetricScope.OPERATOR in scopes else None
        return float(
            sum(v.value for v in found if scope in (None, v.scope) and not isinstance(v.value, HistogramValue))
        )
