"""The client of a job that was compiled, and not started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.common.completable_future import CompletableFuture
from tidemill.common.job_client import JobClient
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.job_id import JobID
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.checkpoint_statistics import CheckpointHistory
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.hot_keys import HotKeys
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.errors import JobExecutionError

__all__ = ["CompiledJob"]


class CompiledJob(JobClient):
    """A job that finished without input: a program that waits for it, or reads its results, continues."""

    def __init__(self, name: str) -> None:
        self._id = JobID.generate()
        self._name = name

    def get_job_id(self) -> JobID:
        return self._id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(JobStatus.FINISHED)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return CompletableFuture.completed(JobExecutionResult(self._id, 0))

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed({})

    def collected(self, uid: str) -> Iterator[Any]:
        """The results of a collecting sink: none, because nothing ran."""
        return iter(())

    def cancel(self) -> CompletableFuture[None]:
        return CompletableFuture.completed(None)

    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        return self._no_savepoint()

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self._no_savepoint()

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self._no_savepoint()

    def get_checkpoint_history(self) -> CheckpointHistory:
        return CheckpointHistory(0, 0, None, ())

    def get_exception_history(self) -> list[ExceptionEntry]:
        return []

    def get_status_timestamps(self) -> dict[JobStatus, int]:
        return {}

    def get_metrics(self) -> MetricSnapshot:
        return MetricSnapshot(str(self._id), self._name, 0, ())

    def get_hot_keys(self, operator: str) -> HotKeys | None:
        return None

    def _no_savepoint(self) -> CompletableFuture[str]:
        return CompletableFuture.failed(JobExecutionError("the job was compiled and not started: it has no savepoint"))
