"""Metrics in Flink's form: ids, aggregates, watermarks, pressure."""

from __future__ import annotations

import pytest

from tidemill.common import Configuration
from tidemill.common.reports.metric_value import MetricScope
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.graph.compiler import compile_job
from tidemill.graph.plan import ChainPlan
from tidemill.metrics.registry import MetricPlace, MetricRegistry
from tidemill.metrics.summary import Summary
from tidemill.ops.rest.figures import NOW_METRICS, Figures, selected

COUNT = MetricPlace(MetricScope.OPERATOR, "count", 0)
TASK = MetricPlace(MetricScope.TASK, "count", 0)


@pytest.fixture(scope="module")
def chain() -> ChainPlan:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    counted = env.from_collection([1]).key_by(lambda n: n).reduce(lambda a, b: a).uid("count").name("Count all")
    counted.print()
    plan = compile_job(env._transformations, Configuration(), "job")
    return next(chain for chain in plan.chains if chain.head.uid == "count")


@pytest.fixture
def registry() -> MetricRegistry:
    registry = MetricRegistry("id", "job")
    registry.name(MetricScope.OPERATOR, "count", "Count all")
    return registry


def test_ids_have_subtask_operator_and_variables(registry: MetricRegistry, chain: ChainPlan) -> None:
    registry.gauge(MetricPlace(), "currentEpoch", 7)
    registry.count(TASK, "numRecordsOut", 5)
    registry.gauge(COUNT, "stateEntries", 2.5, (("state", "kept"),))
    registry.count(MetricPlace(MetricScope.OPERATOR, "other", 0), "numRecordsOut", 1)
    figures = Figures(registry.snapshot())
    assert figures.texts(None) == {"currentEpoch": "7"}
    found = figures.texts(chain)
    assert found["0.numRecordsOut"] == "5"
    assert found["0.Count_all.state.kept.stateEntries"] == "2.5"
    assert not [name for name in found if "other" in name]
    assert selected({"a": "1", "b": "2"}, "b,c") == [{"id": "b", "value": "2"}]


def test_a_histogram_has_an_id_for_each_of_its_figures(registry: MetricRegistry, chain: ChainPlan) -> None:
    for spread, name in ((True, "size"), (False, "few")):
        seen = Summary(spread=spread)
        for value in (1, 2, 300):
            seen.update(value)
        registry.summary(COUNT._replace(subtask=None), name, seen.packed())
    found = Figures(registry.snapshot()).texts(chain)
    assert (found["Count_all.size_count"], found["Count_all.size_max"], found["Count_all.size_mean"]) == (
        "3",
        "300",
        "101",
    )
    assert float(found["Count_all.size_p99"]) > 200
    assert found["Count_all.few_min"] == "1"
    assert "Count_all.few_p99" not in found, "of a distribution the spread is not known"


def test_aggregates_are_over_subtasks(registry: MetricRegistry, chain: ChainPlan) -> None:
    for subtask, value in ((0, 1.0), (1, 3.0), (2, float("nan"))):
        registry.gauge(TASK._replace(subtask=subtask), "busyTimeMsPerSecond", value)
    figures = Figures(registry.snapshot())
    assert figures.aggregated(chain, "busyTimeMsPerSecond,unknown", "min,max,avg,sum,median") == [
        {"id": "busyTimeMsPerSecond", "min": 1.0, "max": 3.0, "avg": 2.0, "sum": 4.0}
    ]
    assert figures.aggregated(chain, None, "") == [{"id": "busyTimeMsPerSecond"}]


def test_watermarks_are_those_received_or_of_a_source_those_sent(registry: MetricRegistry, chain: ChainPlan) -> None:
    registry.gauge(COUNT, "currentOutputWatermark", 10)
    sent = [{"id": "0.currentInputWatermark", "value": "10"}]
    assert Figures(registry.snapshot()).watermarks(chain) == sent
    registry.gauge(COUNT, "currentInputWatermark", 20)
    assert Figures(registry.snapshot()).watermarks(chain) == [{"id": "0.currentInputWatermark", "value": "20"}]


def test_pressure_is_a_share_of_time(registry: MetricRegistry, chain: ChainPlan) -> None:
    registry.gauge(TASK, "backPressuredTimeMsPerSecond", 700)
    registry.gauge(TASK, "busyTimeMsPerSecond", 200)
    registry.gauge(TASK, "idleTimeMsPerSecond", 100)
    first, second = Figures(registry.snapshot()).pressures(chain, 2)
    assert first == {"subtask": 0, "backpressureLevel": "high", "ratio": 0.7, "busyRatio": 0.2, "idleRatio": 0.1}
    assert (second["backpressureLevel"], second["busyRatio"]) == ("ok", 0.0), "it has not done anything yet"


def test_now_has_rates_of_all_subtasks_the_busiest_and_the_lowest_watermark(
    registry: MetricRegistry, chain: ChainPlan
) -> None:
    second = TASK._replace(subtask=1)
    for place, busy, held in ((TASK, 900, 10), (second, 100, 250)):
        registry.count(place, "numRecordsIn", 600)
        registry.gauge(place, "busyTimeMsPerSecond", busy)
        registry.gauge(place, "backPressuredTimeMsPerSecond", held)
    registry.gauge(COUNT, "currentInputWatermark", 50)
    registry.gauge(COUNT._replace(subtask=1), "currentInputWatermark", 40)
    registry.gauge(COUNT, "stateEntries", 2.5)
    snapshot = registry.snapshot(NOW_METRICS)
    assert "stateEntries" not in {value.name for value in snapshot}, "what is not needed is not looked at"
    now = Figures(snapshot).now(chain, "id", 2)
    assert now["records-in-per-second"] == Figures(registry.snapshot()).total(chain, "numRecordsInPerSecond") > 0
    assert (now["busy"], now["backpressure"], now["watermark"]) == (0.9, 0.25, 40)
    assert Figures(registry.snapshot(NOW_METRICS)).now(chain, "id", 0)["busy"] == 0.0


def test_a_vertex_without_watermarks_has_none(registry: MetricRegistry, chain: ChainPlan) -> None:
    assert Figures(registry.snapshot(NOW_METRICS)).now(chain, "id", 1)["watermark"] is None


def test_a_source_has_the_watermark_that_its_chain_sends(registry: MetricRegistry) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.from_sequence(1, 2).uid("numbers").map(lambda n: n).uid("marks").print()
    (marked, *_) = compile_job(env._transformations, Configuration(), "job").chains
    registry.gauge(MetricPlace(MetricScope.OPERATOR, "marks", 0), "currentOutputWatermark", 7)
    assert [one["value"] for one in Figures(registry.snapshot()).watermarks(marked)] == ["7"]
