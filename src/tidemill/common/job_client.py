"""The handle on a submitted job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tidemill.common.completable_future import CompletableFuture
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.job_id import JobID
from tidemill.common.job_status import JobStatus

__all__ = ["JobClient"]


class JobClient(ABC):
    """Watches and steers one job. No method waits; what takes time is in the returned future."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """The job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """What the job is doing now."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancels the job; done when it is cancelled."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stops the job after a savepoint; done, with the savepoint's path, when the job is finished.
        ``advance_to_end_of_event_time`` first sends the greatest watermark, so that all windows and timers fire."""

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint while the job goes on; the value is its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators as of the last committed epoch."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result, once the job is finished; fails if the job fails or is cancelled."""
