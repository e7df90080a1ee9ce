"""The hottest keys of jobs, whatever the operator that gets them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tidemill.common import Configuration, Time, Types, WatermarkStrategy
from tidemill.common.job_client import JobClient
from tidemill.common.reports.hot_keys import HotKey, HotKeys
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.connectors.sources import Split
from tidemill.datastream import (
    DataStream,
    EventTimeSessionWindows,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.ops.prometheus_format import families_of
from tidemill.runtime.exchange import inbox
from tidemill.runtime.exchange.column_parcels import decode_columns
from tidemill.runtime.observe.hot_keys import JobHotKeys
from tidemill.runtime.observe.key_sampler import KeySample
from tidemill.testing.scripted_source import Script, ScriptedSource

#: Of eight records five are of one key.
RECORDS = [(key, n) for n, key in enumerate(["tea", "tea", "milk", "tea", "rice", "tea", "milk", "tea"])]
SEEN = HotKeys((HotKey("tea", "tea", 0.625, 5), HotKey("milk", "milk", 0.25, 2)), sampled=8)
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(4))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(4), Time.milliseconds(2))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(3))


class Last(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield value


failures: list[bool] = []


class Fragile(Last):
    """Fails at one record, the first time it comes."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        if value[1] == 6 and failures:
            failures.clear()
            raise ValueError("for once")
        yield value


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        yield value


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def added(one: Any, two: Any) -> Any:
    return one[0], one[1] + two[1]


OPERATORS: dict[str, Callable[[KeyedStream], DataStream]] = {
    "process": lambda keyed: keyed.process(Last()),
    "reduce": lambda keyed: keyed.reduce(added),
    "sum": lambda keyed: keyed.sum(1),
    "tumbling": lambda keyed: keyed.window(TUMBLING).reduce(added),
    "sliding": lambda keyed: keyed.window(SLIDING).reduce(added),
    "sessions": lambda keyed: keyed.window(SESSIONS).reduce(added),
    "count-window": lambda keyed: keyed.count_window(2).reduce(added),
}


def run(
    build: Callable[[DataStream], DataStream], options: dict[str, str] | None = None, records: list[Any] = RECORDS
) -> JobClient:
    """A job that has read the records, by event time, and ended."""
    settings = {"execution.target": "local", **(options or {})}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    timed = env.from_collection(records, PAIR).assign_timestamps_and_watermarks(strategy)
    build(timed).uid("counted").filter(lambda _: False).print()
    client = env.execute_async("hot")
    client.get_job_execution_result().result()
    return client


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("selector", [0, lambda record: record[0]], ids=["field", "function"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_keyed_operators_of_all_kinds_report_their_hottest_keys(operator: str, selector: Any, mode: str) -> None:
    job = run(
        lambda stream: OPERATORS[operator](stream.key_by(selector, Types.STRING())), {"execution.runtime-mode": mode}
    )
    assert job.get_hot_keys("counted") == SEEN
    assert job.get_metrics().get("hottestKeyShare", operator="counted") == 0.625


def test_both_inputs_of_an_operator_count() -> None:
    def build(stream: DataStream) -> DataStream:
        keyed = stream.key_by(0, Types.STRING())
        return keyed.connect(stream.key_by(lambda record: record[0], Types.STRING())).process(Both())

    found = run(build, records=RECORDS[:4]).get_hot_keys("counted")
    assert found == HotKeys((HotKey("tea", "tea", 0.75, 6), HotKey("milk", "milk", 0.25, 2)), sampled=8)


class Columns(ScriptedSource):
    """Reads its records as Arrow columns, as Spark's are."""

    type_info = PAIR

    def read(self, split: Split) -> Iterator[Any]:
        names, numbers = zip(*split.payload, strict=True)
        yield pa.RecordBatch.from_pydict({"name": names, "number": numbers})

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (None, self.parallelism)


def test_keys_that_cross_the_exchange_as_columns_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Any] = []

    def decode(data: Any) -> Any:
        decoded.append(data)
        return decode_columns(data)

    monkeypatch.setattr(inbox, "decode_columns", decode)
    script = Script()
    script.add(RECORDS)
    script.ended = True
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.target": "local"}))
    env.from_source(Columns(script), None, "columns").key_by(0).sum(1).uid("counted").filter(lambda _: False).print()
    client = env.execute_async("columns")
    client.get_job_execution_result().result()
    assert decoded, "they were sent as columns"
    assert client.get_hot_keys("counted") == SEEN


def test_only_operators_with_keys_have_hot_ones() -> None:
    job = run(lambda stream: stream.map(lambda record: record))
    assert job.get_hot_keys("counted") is job.get_hot_keys("nobody") is None
    assert job.get_metrics().find("hottestKeyShare") == []


def test_it_can_be_turned_off() -> None:
    job = run(lambda stream: stream.key_by(0).sum(1), {"metrics.hot-keys.enabled": "false"})
    assert job.get_hot_keys("counted") is None
    assert job.get_metrics().find("hottestKeyShare") == []


def test_keys_are_neither_metrics_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        metrics = run(lambda stream: stream.key_by(0).sum(1)).get_metrics()
    for text in (str(metrics), str(families_of([metrics])), caplog.text):
        assert "tea" not in text
    (share,) = (family for family in families_of([metrics]) if family.name.endswith("hottestKeyShare"))
    (sample,) = share.samples
    assert sample.value == 0.625
    assert set(sample.labels) == {"job_id", "job_name", "operator_id", "operator_name"}


def test_what_a_failed_attempt_saw_does_not_count() -> None:
    """A function raises once in the middle of an epoch; the job is started again, and reads that epoch once more."""
    failures[:] = [True]
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    found = run(lambda stream: stream.key_by(0, Types.STRING()).process(Fragile()), options).get_hot_keys("counted")
    assert not failures
    assert found is not None
    assert found.sampled == 8


def sample(records: float, **keys: float) -> KeySample:
    return KeySample(records, records, tuple((f'"{key}"', weight) for key, weight in keys.items()))


def test_subtasks_are_put_together() -> None:
    hot = JobHotKeys(["count"])
    assert hot.of("count") == HotKeys((), 0)
    assert hot.hottest_share("count") is None
    hot.take("count", 0, sample(60, a=30, b=10))
    hot.take("count", 1, sample(20, c=15))
    hot.take("count", 2, sample(0))
    assert hot.of("count") == HotKeys(
        (HotKey("a", "a", 0.375, 30), HotKey("c", "c", 0.1875, 15), HotKey("b", "b", 0.125, 10)), 80
    )
    hot.take("count", 0, sample(20, a=5))
    assert hot.hottest_share("count") == 0.375, "what a subtask says replaces what it said before"
    hot.forget(["count"], 1)
    assert hot.of("count") == HotKeys((HotKey("a", "a", 0.25, 5),), 20)
    assert hot.of("other") is None


def test_a_job_that_was_rescaled_counts_no_key_twice() -> None:
    hot = JobHotKeys(["count"])
    hot.take("count", 0, sample(10, a=5))
    hot.take("count", 1, sample(10, a=5, b=2))
    found = hot.of("count")
    assert found is not None
    assert [key.text for key in found.keys] == ["a", "b"]
