"""The Grafana dashboard asks for metrics that exist, and is laid out so that it loads."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import combinations
from typing import Any

import pytest

from tidemill.common.reports.metric_value import MetricKind
from tidemill.metrics.catalog import CATALOG, PER_SECOND
from tidemill.ops.prometheus_format import family_name

DASHBOARD: dict[str, Any] = json.loads((files("tidemill.ops") / "grafana-dashboard.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
CHARTS = [panel for panel in PANELS if panel["type"] != "row"]


def exported() -> dict[str, set[str]]:
    """The labels of every time series that the endpoint has for jobs."""
    series: dict[str, set[str]] = {}
    for metric in CATALOG:
        name = family_name(metric.scope, metric.name)
        labels = {"job_id", "job_name", *({"subtask_index"} if "subtask" in metric.by else ())}
        labels |= {label for label in metric.by if label != "subtask"}
        if metric.scope.value != "job":
            labels |= {f"{metric.scope.value}_id", f"{metric.scope.value}_name"}
        suffixes = {MetricKind.COUNTER: ["_total"], MetricKind.HISTOGRAM: ["_bucket", "_count", "_sum", "_min", "_max"]}
        for suffix in suffixes.get(metric.kind, [""]):
            series[name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
        if metric.rated:
            series[name + PER_SECOND] = labels
    return series


def queries() -> list[str]:
    return [target["expr"] for panel in CHARTS for target in panel["targets"]]


@pytest.mark.parametrize("query", queries())
def test_a_query_is_of_metrics_and_labels_that_exist(query: str) -> None:
    series = exported()
    asked = re.findall(r"\b(?:tidemill|process)_\w+", query)
    assert asked
    for name in asked:
        assert name in series or name == "process_resident_memory_bytes"
        for labels in re.findall(r"by \(([^)]*)\)", query):
            if name in series:
                assert {label.strip() for label in labels.split(",")} <= series[name]
    assert query.count("(") == query.count(")")
    assert query.count("{") == query.count("}")


def test_legends_name_labels_that_the_query_leaves() -> None:
    for panel in CHARTS:
        for target in panel["targets"]:
            grouped = re.search(r"^\w*\s*by \(([^)]*)\)", target["expr"])
            if grouped:
                left = {label.strip() for label in grouped[1].split(",")}
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left, panel["title"]


def test_the_list_of_jobs_comes_from_a_metric_that_exists() -> None:
    (jobs,) = (variable for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query")
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", jobs["query"]["query"]).groups()  # type: ignore[union-attr]
    assert label in exported()[metric]


def test_panels_have_ids_of_their_own_and_do_not_lie_over_each_other() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


def test_every_chart_has_a_title_a_unit_and_the_chosen_data_source() -> None:
    for panel in CHARTS:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
