"""Functions that take their time: results are committed steadily, and a stop does not wait for all input."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.common.job_status import JobStatus
from tidemill.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.runtime.driver.job import RunningJob
from tidemill.testing import JobHarness
from tidemill.testing.recording_sink import Recording, RecordingSink

#: What a record takes at least, in seconds.
COST = 0.005
#: Half of this is what an epoch is to take.
DURATION = 0.5
#: So an epoch has at most so many, once it is known what a record takes.
LARGEST = DURATION / 2 / COST


class Slow(MapFunction):
    def map(self, value: Any) -> Any:
        time.sleep(COST)
        return value


class Failing(Slow):
    """Fails once, at a record."""

    failed = False

    def map(self, value: Any) -> Any:
        if value == 250 and not Failing.failed:
            Failing.failed = True
            raise RuntimeError("once")
        return super().map(value)


def _environment(**more: str) -> StreamExecutionEnvironment:
    options = {
        "execution.target": "local",
        "parallelism.default": "1",
        "execution.epoch.max-duration": f"{int(DURATION * 1000)} ms",
        **more,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


def _check(records: list[int], total: int) -> None:
    first, *others = records
    assert sum(records) == total
    assert first == 100
    assert max(others) <= LARGEST
    assert len(others) >= (total - first) / LARGEST


@pytest.mark.parametrize("keyed", [False, True], ids=["at the source", "behind an exchange"])
def test_slow_records_are_committed_steadily(keyed: bool) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = env.from_sequence(1, 300)
        return (numbers.key_by(lambda n: 0) if keyed else numbers).map(Slow())

    options = {"execution.epoch.max-duration": f"{int(DURATION * 1000)} ms"}
    with JobHarness(build, parallelism=1, configuration=options) as job:
        job.end()
        assert sorted(job.output()) == list(range(1, 301))
        _check([len(values) for values in job.recording().by_epoch().values()], 300)


def test_a_job_of_slow_records_commits_steadily_also_after_a_failure() -> None:
    Failing.failed = False
    retry = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"}
    env = _environment(**retry)
    recording = Recording()
    env.from_collection(list(range(400))).map(Failing()).sink_to(RecordingSink(recording))
    client = env.execute_async("slow")
    client.get_job_execution_result().result(60)
    assert isinstance(client, RunningJob)
    assert client.num_restarts == 1
    assert sorted(recording.values()) == list(range(400))
    _check([epoch.records_in for epoch in client.epochs], 400)


def test_a_stop_with_a_savepoint_waits_for_an_epoch_and_not_for_all_input(tmp_path: Path) -> None:
    env = _environment()
    recording = Recording()
    env.from_collection(list(range(4000))).uid("numbers").map(Slow()).sink_to(RecordingSink(recording)).uid("sink")
    client = env.execute_async("slow")
    eventually(lambda: len(recording.values()) > 100)
    before = len(recording.values())
    client.stop_with_savepoint(False, str(tmp_path)).result(60)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert len(recording.values()) <= before + 3 * LARGEST


def test_a_record_that_takes_longer_than_an_epoch_may_is_processed() -> None:
    env = _environment(**{"execution.epoch.max-duration": "2 ms"})
    recording = Recording()
    env.from_collection(list(range(110))).map(Slow()).sink_to(RecordingSink(recording))
    client = env.execute_async("slow")
    client.get_job_execution_result().result(60)
    assert isinstance(client, RunningJob)
    assert sorted(recording.values()) == list(range(110))
    assert [epoch.records_in for epoch in client.epochs] == [100] + [1] * 10


class SlowToOpen(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        time.sleep(3.0)

    def map(self, value: Any) -> Any:
        return value


def test_the_time_to_open_functions_does_not_count() -> None:
    env = _environment(**{"execution.epoch.max-duration": "2 s"})
    recording = Recording()
    env.from_collection(list(range(300))).map(SlowToOpen()).sink_to(RecordingSink(recording))
    client = env.execute_async("slow to open")
    client.get_job_execution_result().result(60)
    assert isinstance(client, RunningJob)
    first, second, *_ = [epoch.records_in for epoch in client.epochs]
    assert (first, sorted(recording.values())) == (100, list(range(300)))
    assert second > 100, "it took three seconds, of which no record took any"


def test_a_job_in_batch_mode_is_one_epoch() -> None:
    env = _environment(**{"execution.runtime-mode": "BATCH"})
    recording = Recording()
    env.from_collection(list(range(150))).map(Slow()).sink_to(RecordingSink(recording))
    client = env.execute_async("slow")
    client.get_job_execution_result().result(60)
    assert isinstance(client, RunningJob)
    assert [epoch.records_in for epoch in client.epochs] == [150]


def test_a_fast_job_soon_has_large_epochs() -> None:
    env = _environment(**{"execution.epoch.max-duration": "60 s"})
    recording = Recording()
    env.from_sequence(1, 200_000).filter(lambda n: n % 1000 == 0).sink_to(RecordingSink(recording))
    client = env.execute_async("fast")
    client.get_job_execution_result().result(60)
    assert isinstance(client, RunningJob)
    assert [epoch.records_in for epoch in client.epochs] == [100, 1600, 25_600, 172_700]
