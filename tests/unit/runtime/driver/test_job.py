"""How a running job ends, and what it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.runtime.plans import bundle
from tidemill.checkpoint.model import Epoch
from tidemill.common import ExitCode, JobStatus
from tidemill.common.reports.exit_codes import exit_code_of
from tidemill.common.restart_strategy import RestartStrategies
from tidemill.errors import (
    CheckpointError,
    EngineLostError,
    FencedError,
    JobCancelledError,
    TidemillError,
    UserCodeError,
)
from tidemill.runtime.batch.failures import user_error
from tidemill.runtime.driver.job import RunningJob, StopSignal
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.driver.restarts import restarts_for
from tidemill.runtime.observe.epoch_stats import EpochStats


def job(attempt: Callable[[StopSignal], None], most_restarts: int = 0) -> RunningJob:
    plan = bundle(lambda env: env.from_collection([1]).map(str)).plan
    restarts = restarts_for(RestartStrategies.fixed_delay_restart(most_restarts, 0))
    return RunningJob("id", "name", attempt, restarts, lambda: None, JobParallelism(plan, 1, []))


def stats(epoch: int, **metrics: float) -> EpochStats:
    return EpochStats(Epoch(epoch), 1, 0.1, 0.1, 0.0, 0.0, 0, 0, 1, metrics)


def test_a_thread_that_is_made_to_exit_has_not_finished_its_job() -> None:
    def leave(stop: StopSignal) -> None:
        raise SystemExit(3)

    running = job(leave).start()
    with pytest.raises(UserCodeError, match="SystemExit: 3"):
        running.get_job_execution_result().result(60)
    assert running.get_job_status().result() == JobStatus.FAILED


def test_totals_are_of_all_epochs_and_gauges_are_the_last_ones() -> None:
    running = job(lambda stop: None)
    for epoch in range(1500):
        running.note_epoch(stats(epoch, numRecordsIn=2))
    assert len(running.epochs) == 1000
    assert [bool(one.metrics) for one in running.epochs] == [False] * 900 + [True] * 100
    assert running.get_accumulators().result() == {"numRecordsIn": 3000}


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


def test_a_job_that_was_cancelled_while_it_started_does_not_wait_either() -> None:
    called = []
    stop = StopSignal()
    stop.set()
    with stop.interrupting(lambda: called.append("at once")):
        assert called == ["at once"]


def at_record(record: int) -> TidemillError:
    """An error as a user function causes it."""
    return user_error("operator 'parse'", ValueError("bad"), record=record)


def test_the_history_lists_what_failed_and_what_followed() -> None:
    failures = [at_record(1), at_record(1), CheckpointError("the disk is full"), at_record(2)]

    def fail(stop: StopSignal) -> None:
        raise failures.pop(0)

    running = job(fail, most_restarts=3).start()
    with pytest.raises(UserCodeError) as caught:
        running.get_job_execution_result().result(60)
    assert "times" not in str(caught.value)
    told = [(entry.times, entry.exception, entry.followed_by) for entry in running.get_exception_history()]
    assert told == [
        (1, "ValueError: bad", "the job was not started again"),
        (1, "CheckpointError: the disk is full", "started again after 0 ms"),
        (2, "ValueError: bad", "started again after 0 ms"),
    ]


def test_a_job_that_fails_at_one_record_again_and_again_says_so_in_the_end() -> None:
    def fail(stop: StopSignal) -> None:
        raise at_record(7)

    running = job(fail, most_restarts=2).start()
    with pytest.raises(UserCodeError) as caught:
        running.get_job_execution_result().result(60)
    message = str(caught.value)
    assert message.startswith("ValueError: bad")
    assert "while processing record 7" in message
    assert "failed 3 times at the same record" in message
    assert caught.value.site is not None
    assert caught.value.site.record == "7"


def test_the_times_of_all_states_are_known() -> None:
    failures = [OSError("once")]

    def fail_once(stop: StopSignal) -> None:
        if failures:
            raise failures.pop()

    running = job(fail_once, most_restarts=1).start()
    running.get_job_execution_result().result(60)
    times = running.get_status_timestamps()
    entered = [JobStatus.CREATED, JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FINISHED]
    assert set(times) == set(entered)
    assert [times[status] for status in entered] == sorted(times.values())


def test_a_job_that_fails_is_failing_first_and_one_that_is_taken_over_is_suspended() -> None:
    def fail(stop: StopSignal) -> None:
        raise OSError("no")

    def lose(stop: StopSignal) -> None:
        raise FencedError("taken over")

    failed, lost = job(fail).start(), job(lose, most_restarts=5).start()
    for running, error in ((failed, OSError), (lost, FencedError)):
        with pytest.raises(error):
            running.get_job_execution_result().result(60)
    assert {JobStatus.FAILING, JobStatus.FAILED} <= set(failed.get_status_timestamps())
    assert lost.get_job_status().result() is JobStatus.SUSPENDED
    assert lost.num_restarts == 0


def test_a_job_that_is_over_stays_as_it_ended_if_it_is_cancelled_then() -> None:
    def taken_over(stop: StopSignal) -> None:
        raise FencedError("taken over")

    finished, lost = job(lambda stop: None).start(), job(taken_over).start()
    finished.get_job_execution_result().result(60)
    with pytest.raises(FencedError):
        lost.get_job_execution_result().result(60)
    for running, ended in ((finished, JobStatus.FINISHED), (lost, JobStatus.SUSPENDED)):
        running.cancel().result(60)
        assert running.get_job_status().result() is ended
        assert JobStatus.CANCELLING not in running.get_status_timestamps()


def test_a_driver_whose_engine_is_gone_is_not_kept_busy_with_restarts() -> None:
    def lose(stop: StopSignal) -> None:
        raise EngineLostError("Spark is gone")

    lost = job(lose, most_restarts=5).start()
    with pytest.raises(EngineLostError) as raised:
        lost.get_job_execution_result().result(60)
    assert lost.get_job_status().result() is JobStatus.FAILED
    assert lost.num_restarts == 0
    assert exit_code_of(raised.value) is ExitCode.FAILED  # another driver may do better


def test_a_job_that_fails_while_it_is_cancelled_does_not_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[JobStatus] = []

    def fail(stop: StopSignal) -> None:
        # The cancellation has been requested, but the job is not told yet.
        monkeypatch.setattr(stop, "set", lambda: None)
        running.cancel()
        monkeypatch.undo()
        raise ValueError("too late")

    running = job(fail, most_restarts=5)
    enter = running._enter

    def note(status: JobStatus) -> bool:
        done = enter(status)
        entered.append(running.get_job_status().result())
        return done

    running._enter = note  # type: ignore[method-assign]
    running.start()
    with pytest.raises(JobCancelledError):
        running.get_job_execution_result().result(60)
    assert JobStatus.RESTARTING not in entered
    assert entered[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]
    assert running.num_restarts == 0
    assert running.get_exception_history()[0].followed_by == "the job was cancelled"
