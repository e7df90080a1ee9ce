"""Client of a submitted job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tidemill.common.completable_future import CompletableFuture
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.job_id import JobID
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.checkpoint_statistics import CheckpointHistory
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.hot_keys import HotKeys
from tidemill.common.reports.metric_value import MetricSnapshot

__all__ = ["JobClient"]


class JobClient(ABC):
    """Monitors and controls one job. No method blocks: operations that take time return a future."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """The job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """The current status of the job."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancels the job. The future completes when the job is cancelled."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stops the job with a savepoint. The future completes with the savepoint's path when the job is finished.

        The sources stop reading, and nothing runs after the savepoint. If the savepoint fails, the job continues.

        ``advance_to_end_of_event_time`` drains the job: it first emits the maximum watermark, so that all windows and
        timers fire. A drained job is complete: a job that starts from its savepoint has nothing left to do. If the
        savepoint of a drained job fails, the job still finishes.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Triggers a savepoint while the job keeps running. The future completes with the savepoint's path.

        The savepoint contains the last committed epoch. It is started between two epochs and copied in the background.
        Without a directory it is written to ``execution.checkpointing.savepoint-dir``. If it cannot be written, the
        future fails and the job continues. Failures and restarts of the job do not affect the savepoint, unless the job
        ends before the savepoint is complete.
        """

    @abstractmethod
    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Cancels the job with a savepoint. The future completes with the savepoint's path when the job is cancelled.

        Nothing runs after the savepoint. If the savepoint fails, the job continues.
        """

    @abstractmethod
    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        """Changes the parallelism of the running job.

        The future completes when the first epoch with the new parallelism is committed. The change takes effect between
        two epochs: nothing is restarted or recomputed. Operators whose parallelism changes are closed and reopened with
        the committed state of their key groups.

        An int applies to all operators whose parallelism is not set by the program or by their source. A mapping from
        uid to parallelism applies to the named operators, including those. Operators in one chain, or connected by a
        forward edge, change together. A job without new input runs an epoch to apply the change. The request survives
        failures of the job; after a restart of the driver, the parallelism of the program's configuration applies
        again.

        Fails for a parallelism below 1 or above an operator's max parallelism, for an unknown uid, for a source whose
        parallelism is fixed, in BATCH mode, and if the job ends first.
        """

    @abstractmethod
    def get_checkpoint_history(self) -> CheckpointHistory:
        """The job's checkpoints: the most recent with size, duration and status, and the counts of all."""

    @abstractmethod
    def get_exception_history(self) -> list[ExceptionEntry]:
        """The last ``web.exception-history-size`` failures of the job and how it reacted to them, newest first.

        Consecutive failures at the same record are one entry with a count.
        """

    @abstractmethod
    def get_status_timestamps(self) -> dict[JobStatus, int]:
        """The time at which the job last entered each status it has had, in milliseconds since 1970."""

    @abstractmethod
    def get_metrics(self) -> MetricSnapshot:
        """The current metrics of the job, including those of user functions. Counts cover committed epochs."""

    @abstractmethod
    def get_hot_keys(self, operator: str) -> HotKeys | None:
        """The most frequent keys of a keyed operator, sampled over about the last minute. ``operator`` is its uid.

        They are as of a committed epoch and at most a few seconds old. Returns None if no operator with keyed input has
        this uid, or if ``metrics.hot-keys.enabled`` is false.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The counters of functions and operators over committed epochs, by uid and metric name."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job. The future completes when the job finishes, and fails if it fails or is cancelled."""
