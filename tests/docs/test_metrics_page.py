"""`docs/metrics.md` lists every metric of the system, and none that there is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_pages import tables_of, text_of
from tidemill.common.reports.metric_value import MetricScope
from tidemill.config import LoggingOptions
from tidemill.metrics.catalog import CATALOG, PER_SECOND
from tidemill.runtime.observe.metrics import MOST_METRICS

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
HEADINGS = {
    MetricScope.JOB: "The metrics of a job",
    MetricScope.TASK: "The metrics of a task",
    MetricScope.OPERATOR: "The metrics of an operator",
}


@pytest.mark.parametrize("scope", list(MetricScope), ids=lambda scope: str(scope.value))
def test_every_metric_is_listed_as_it_is(scope: MetricScope) -> None:
    told = tables_of(PAGE, HEADINGS[scope])[0][2:]
    expected = []
    for metric in (metric for metric in CATALOG if metric.scope is scope):
        rate = f", `{metric.name}{PER_SECOND}`" if metric.rated else ""
        name = f"`{metric.name}`{rate}" + ("" if metric.of_flink else " *")
        kind = metric.kind.value + (", meter" if metric.rated else "")
        expected.append([name, kind, metric.unit, ", ".join(metric.by), metric.meaning])
    assert told == expected


def test_names_are_listed_once() -> None:
    names = [(metric.scope, metric.name) for metric in CATALOG]
    assert len(names) == len(set(names))


def test_the_options_of_logs_are_documented_with_their_defaults() -> None:
    rows = {row[0].strip("`"): row[1].strip("`") for row in tables_of(PAGE, "Logs")[0][2:]}
    assert rows == {option.key: option.default for option in (LoggingOptions.LEVEL, LoggingOptions.FORMAT)}


def test_the_bound_is_as_documented() -> None:
    assert f"An operator has {MOST_METRICS:,}".replace(",", " ") in text_of(PAGE).replace("\n  ", " ")
