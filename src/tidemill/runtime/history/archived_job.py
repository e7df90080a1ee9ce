"""A job as its record in the history describes it: a job client whose job cannot be controlled."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

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
from tidemill.runtime.history.job_record import JobRecord
from tidemill.runtime.observe.epoch_stats import EpochStats

__all__ = ["ArchivedJob"]

T = TypeVar("T")

#: A driver is considered to have been killed when it has not written a record for this many intervals, and so many
#: milliseconds: writing may take a while.
_MISSED: Final = 3
_GRACE: Final = 10_000


class ArchivedJob(JobClient):
    """Returns the reports of a record. All operations fail.

    ``gone`` is whether it is known that the driver has ended. Otherwise a driver whose job was running is considered
    gone after several intervals without a new record; its job is then suspended since the last one.
    """

    def __init__(self, record: JobRecord, *, gone: bool = False) -> None:
        self.record = record
        self.gone = gone

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.record.name

    @property
    def epochs(self) -> tuple[EpochStats, ...]:
        """The last epochs of the job, oldest first."""
        return self.record.epochs

    @property
    def num_restarts(self) -> int:
        """How often the job was restarted after failures."""
        return self.record.restarts

    @property
    def is_lost(self) -> bool:
        """Whether the driver ended without a final record: it was killed, or lost its machine or storage."""
        record = self.record
        if record.status.is_terminal_state():
            return False
        return self.gone or time.time_ns() // 1_000_000 - record.written > _MISSED * record.pause + _GRACE

    def get_job_id(self) -> JobID:
        return JobID(self.record.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(JobStatus.SUSPENDED if self.is_lost else self.record.status)

    def get_status_timestamps(self) -> dict[JobStatus, int]:
        entered = dict(self.record.entered)
        if self.is_lost:
            entered[JobStatus.SUSPENDED] = self.record.written
        return entered

    def get_checkpoint_history(self) -> CheckpointHistory:
        return self.record.checkpoints

    def get_exception_history(self) -> list[ExceptionEntry]:
        return list(self.record.exceptions)

    def get_metrics(self) -> MetricSnapshot:
        return self.record.metrics

    def get_metrics_named(self, names: frozenset[str]) -> MetricSnapshot:
        """The metrics with the given names only."""
        found = self.record.metrics
        return replace(found, values=tuple(value for value in found if value.name in names))

    def get_hot_keys(self, operator: str) -> HotKeys | None:
        return self.record.hot_keys.get(operator)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed(dict(self.record.accumulators))

    def cancel(self) -> CompletableFuture[None]:
        return self._refused()

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        return self._refused()

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self._refused()

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self._refused()

    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        return self._refused()

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._refused()

    def _refused(self) -> CompletableFuture[T]:
        return CompletableFuture.failed(
            JobExecutionError(f"job {self.record.job_id} is shown as recorded in the history, and cannot be controlled")
        )
