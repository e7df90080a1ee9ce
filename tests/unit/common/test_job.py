"""Job ids, states, results and futures."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest

from tidemill.common import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from tidemill.errors import ConfigurationError


def test_job_ids() -> None:
    assert JobID.generate() != JobID.generate()
    assert JobID("a") == JobID("a")
    assert len({JobID("a"), JobID("a")}) == 1
    for unsafe in ("", "../x", "a/b", "a..b", "-a", "a b", "a" * 129):
        with pytest.raises(ConfigurationError, match="Invalid job id"):
            JobID(unsafe)


def test_terminal_states() -> None:
    over = {status for status in JobStatus if status.is_globally_terminal_state()}
    assert over == {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {status for status in JobStatus if status.is_terminal_state()} == over | {JobStatus.SUSPENDED}


def test_results() -> None:
    result = JobExecutionResult(JobID("j"), 12, {"n": 3})
    assert result.get_job_id() == JobID("j")
    assert result.get_net_runtime() == 12
    assert (result.get_accumulator_result("n"), result.get_accumulator_result("m")) == (3, None)
    assert result.get_all_accumulator_results() == {"n": 3}
    assert "Job with JobID j has finished." in str(result)
    assert "12 ms" in str(result)


def test_futures() -> None:
    inner: Future[int] = Future()
    future = CompletableFuture(inner)
    seen: list[int] = []
    future.add_done_callback(lambda done: seen.append(done.result()))
    assert not future.done()
    assert future.exception() is None, "does not wait"
    assert str(future) == "CompletableFuture[Not completed]"
    with pytest.raises(FutureTimeoutError):
        future.result(timeout=0)
    inner.set_result(5)
    assert (future.done(), future.result(), future.exception(), future.cancel(), seen) == (True, 5, None, False, [5])
    assert str(future) == "CompletableFuture[Completed normally]"


def test_futures_that_fail_or_are_cancelled() -> None:
    error = RuntimeError("x")
    failed: CompletableFuture[int] = CompletableFuture.failed(error)
    assert failed.exception() is error
    with pytest.raises(RuntimeError, match="x"):
        failed.result()
    assert str(failed) == "CompletableFuture[Completed exceptionally]"
    cancelled: CompletableFuture[int] = CompletableFuture()
    assert cancelled.cancel()
    assert cancelled.cancelled()
    assert isinstance(cancelled.exception(), CancelledError)
    assert str(cancelled) == "CompletableFuture[Completed exceptionally]"


def test_a_job_client_has_all_of_pyflinks_methods_and_rescales() -> None:
    assert JobClient.__abstractmethods__ == {
        "cancel",
        "cancel_with_savepoint",
        "get_accumulators",
        "get_checkpoint_history",
        "get_hot_keys",
        "get_exception_history",
        "get_job_execution_result",
        "get_job_id",
        "get_job_status",
        "get_metrics",
        "get_status_timestamps",
        "rescale",
        "stop_with_savepoint",
        "trigger_savepoint",
    }
