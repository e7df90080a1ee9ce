"""The handle on a submitted job."""

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

        Nothing is read any more, and nothing runs after the savepoint. If it fails the job goes on.
        ``advance_to_end_of_event_time`` drains the job: it first sends the greatest watermark, so that all windows and
        timers fire. Such a job is over: one that starts from its savepoint has nothing more to do. If the savepoint of
        a drained job fails, the job is finished all the same.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint while the job goes on; the value is its path.

        It is of the last committed epoch, and begun between two; the copy is made meanwhile. Without a directory it
        goes to the one of ``execution.checkpointing.savepoint-dir``. Where it cannot be written, the future fails, and
        the job goes on. The job's own failures do not matter, unless it ends before.
        """

    @abstractmethod
    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint, then cancels the job; done, with the savepoint's path, when it is cancelled.

        Nothing runs after the savepoint. If it fails the job goes on.
        """

    @abstractmethod
    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        """Changes the parallelism while the job runs; done when the first epoch with the new one is committed.

        It takes effect between two epochs: nothing is restarted or computed again. Operators whose parallelism changes
        are closed, and opened again with the committed state of their key groups.

        An int is for all operators to which neither the program nor their source gives a parallelism of their own; a
        mapping from uid to parallelism names operators, also such. Operators in one chain, or connected by a forward
        edge, change together. A job without new input runs an epoch for it. The request outlives failures of the job;
        when the driver itself is started again, the program's configuration holds again.

        Fails for a parallelism below 1 or above an operator's max parallelism, for an unknown uid, for a source that
        can be read in one way only, in BATCH mode, and if the job ends before.
        """

    @abstractmethod
    def get_checkpoint_history(self) -> CheckpointHistory:
        """The job's checkpoints: the last ones with size, duration and status, and the counts of all."""

    @abstractmethod
    def get_exception_history(self) -> list[ExceptionEntry]:
        """What the job failed with, and what it did then: newest first, the last ``web.exception-history-size``.

        Failures one after the other at the same record are one entry, which counts them.
        """

    @abstractmethod
    def get_status_timestamps(self) -> dict[JobStatus, int]:
        """When the job last entered each of the states it was in, in milliseconds since 1970."""

    @abstractmethod
    def get_metrics(self) -> MetricSnapshot:
        """All metrics of the job now, its own and those of user functions; counts are of committed epochs."""

    @abstractmethod
    def get_hot_keys(self, operator: str) -> HotKeys | None:
        """The most frequent keys of a keyed operator, given by its uid, by samples of the last minute or so.

        They are as of a committed epoch, at most a few seconds old. None if no operator with keyed input has this uid,
        or ``metrics.hot-keys.enabled`` is false.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """What functions and operators have counted in committed epochs, by uid and name of the metric."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result, once the job is finished; fails if the job fails or is cancelled."""
