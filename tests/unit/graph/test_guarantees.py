"""What a pipeline promises: its weakest part decides, and a job that asks for more gets one warning."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.common import Configuration
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.sources import Position, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import SinkFunction
from tidemill.datastream.stream_execution_environment import StreamExecutionEnvironment as Environment
from tidemill.graph.explain import explain_plan
from tidemill.graph.guarantees import promises, warning, weakest
from tidemill.graph.plan import JobPlan
from tidemill.graph.plan_json import plan_to_json
from tidemill.runtime.driver.launch import prepare
from tidemill.testing.recording_sink import Recording, RecordingSink


class Appends(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


class Lossy(SplitSource):
    """Hands out what it has, once."""

    replayable = False

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return CollectionSource([1]).create_enumerator(position)

    def read(self, split: Split) -> Iterator[Any]:
        return iter(())


def once() -> RecordingSink:
    return RecordingSink(Recording())


def env(**options: str) -> Environment:
    configuration = Configuration()
    for key, value in {"execution.target": "local", **options}.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def plan_of(environment: Environment) -> JobPlan:
    return prepare(environment._program("job"), 2).plan


def result(plan: JobPlan) -> dict[str, str]:
    return {promise.sink: promise.guarantee for promise in promises(plan)}


def test_a_replayable_source_and_an_exactly_once_sink() -> None:
    program = env()
    program.from_collection([1]).key_by(lambda n: n).sum().sink_to(once()).name("out")
    plan = plan_of(program)
    assert result(plan) == {"out": "exactly-once"}
    assert warning(plan) is None
    assert "Results in 'out': exactly-once" in explain_plan(plan)
    assert json.loads(plan_to_json(plan))["guarantee"] == "exactly-once"


def test_an_at_least_once_sink_is_named() -> None:
    program = env()
    numbers = program.from_collection([1])
    numbers.sink_to(once()).name("good")
    numbers.key_by(lambda n: n).sum().add_sink(Appends()).name("bad")
    plan = plan_of(program)
    assert result(plan) == {"good": "exactly-once", "bad": "at-least-once"}
    text = warning(plan)
    assert text is not None
    assert "'bad' is at-least-once" in text
    assert "'good'" not in text
    found = json.loads(plan_to_json(plan))
    assert found["guarantee"] == "at-least-once"
    assert [node["result"] for node in found["nodes"] if "result" in node] == ["exactly-once", "at-least-once"]


def test_a_source_that_cannot_be_read_again_reaches_only_what_it_feeds() -> None:
    program = env()
    lossy = program.from_source(Lossy(), None, "feed")
    other = program.from_collection([1])
    other.sink_to(once()).name("apart")
    other.union(lossy).key_by(lambda n: n).sum().sink_to(once()).name("behind")
    lossy.add_sink(Appends()).name("worst")
    plan = plan_of(program)
    assert result(plan) == {"apart": "exactly-once", "behind": "at-most-once", "worst": "none"}
    text = warning(plan)
    assert text is not None
    assert text.count("'Source: feed' cannot be read again") == 1
    lowest = weakest(promises(plan))
    assert lowest is not None
    assert lowest.sink == "worst"
    assert "not replayable" in explain_plan(plan)
    assert [node["replayable"] for node in json.loads(plan_to_json(plan))["nodes"] if "replayable" in node] == [
        False,
        True,
    ]


def test_at_least_once_by_choice_gets_no_warning() -> None:
    program = env(**{"execution.checkpointing.mode": "AT_LEAST_ONCE"})
    program.from_collection([1]).add_sink(Appends())
    assert warning(plan_of(program)) is None


def test_printing_gets_no_warning() -> None:
    program = env()
    program.from_collection([1]).print()
    plan = plan_of(program)
    assert list(result(plan).values()) == ["at-least-once"]
    assert warning(plan) is None


def test_a_program_without_sinks_promises_nothing() -> None:
    program = env()
    program.from_collection([1]).map(lambda n: n)
    plan = plan_of(program)
    assert weakest(promises(plan)) is None
    assert "guarantee" not in json.loads(plan_to_json(plan))


def test_the_warning_comes_once_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    program = env(**{"execution.epoch.max-records": "2"})
    program.from_collection([1, 2, 3, 4, 5]).add_sink(Appends()).name("out")
    with caplog.at_level(logging.WARNING):
        program.execute("weak")
    told = [record.getMessage() for record in caplog.records if "exactly-once" in record.getMessage()]
    assert len(told) == 1
    assert "job 'weak' is not exactly-once end to end: 'out' is at-least-once" in told[0]


class Repeating(Lossy):
    """Does not know which records it has handed out."""

    replayable = True
    repeats = True


def test_a_source_that_repeats_records_makes_results_and_state_at_least_once() -> None:
    program = env()
    program.from_source(Repeating(), None, "queue").sink_to(once()).name("out")
    plan = plan_of(program)
    assert result(plan) == {"out": "at-least-once"}
    told = warning(plan)
    assert told is not None
    assert "'Source: queue' may read records again after a failure, also into the state" in told
    assert "Its state is exactly-once" not in told
    assert "may repeat records" in explain_plan(plan)
