"""How a running job ends, and what it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.runtime.plans import bundle
from tidemill.common import JobStatus
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.runtime.coordinator import EpochStats
from tidemill.runtime.job import RunningJob, StopSignal
from tidemill.runtime.rescaling import JobParallelism
from tidemill.runtime.restarts import restarts_for


def job(attempt: Callable[[StopSignal], None]) -> RunningJob:
    plan = bundle(lambda env: env.from_collection([1]).map(str)).plan
    restarts = restarts_for(RestartStrategies.no_restart())
    return RunningJob("id", "name", attempt, restarts, lambda: None, JobParallelism(plan, 1, []))


def stats(epoch: int, **metrics: float) -> EpochStats:
    return EpochStats(epoch, 1, 0.1, 0.1, 0.0, 0.0, 0, 0, 1, metrics)


def test_a_thread_that_is_made_to_exit_has_not_finished_its_job() -> None:
    def leave(stop: StopSignal) -> None:
        raise SystemExit(3)

    running = job(leave).start()
    with pytest.raises(SystemExit):
        running.get_job_execution_result().result(10)
    assert running.get_job_status().result() == JobStatus.FAILED


def test_totals_are_of_all_epochs_and_gauges_are_the_last_ones() -> None:
    running = job(lambda stop: None)
    for epoch in range(1500):
        running.note_epoch(stats(epoch, numRecordsIn=2, stateEntries=epoch))
    assert len(running.epochs) == 1000
    assert running.get_accumulators().result() == {"numRecordsIn": 3000, "stateEntries": 1499}


def test_a_job_is_interrupted_only_while_it_waits_and_by_all_who_can() -> None:
    called = []

    def broken() -> None:
        raise OSError("gone")

    stop = StopSignal()
    with stop.interrupting(lambda: called.append("before")):
        pass
    with stop.interrupting(broken), stop.interrupting(lambda: called.append("during")):
        stop.set()
    assert called == ["during"]
