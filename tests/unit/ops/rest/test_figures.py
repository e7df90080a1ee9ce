"""Metrics in Flink's form: ids, aggregates, watermarks, pressure."""

from __future__ import annotations

import pytest

from tidemill.common import Configuration
from tidemill.common.metric_value import MetricScope
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.graph.compiler import compile_job
from tidemill.graph.plan import ChainPlan
from tidemill.metrics.registry import MetricRegistry, Place
from tidemill.metrics.summary import Summary
from tidemill.ops.rest.figures import Figures, selected

COUNT = Place(MetricScope.OPERATOR, "count", 0)
TASK = Place(MetricScope.TASK, "count", 0)


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
    registry.gauge(Place(), "currentEpoch", 7)
    registry.count(TASK, "numRecordsOut", 5)
    registry.gauge(COUNT, "stateEntries", 2.5, (("state", "kept"),))
    registry.count(Place(MetricScope.OPERATOR, "other", 0), "numRecordsOut", 1)
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
