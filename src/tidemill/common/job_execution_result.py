"""The result of a finished job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.common.job_id import JobID

__all__ = ["JobExecutionResult"]


@dataclass(frozen=True)
class JobExecutionResult:
    """The job's id, how long it ran, and its accumulators.

    >>> result = JobExecutionResult(JobID("j"), 12, {"lines": 3})
    >>> result.get_net_runtime(), result.get_accumulator_result("lines")
    (12, 3)
    """

    job_id: JobID
    net_runtime: int
    accumulators: Mapping[str, Any] = field(default_factory=dict)

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from the start of the first epoch to the end of the last."""
        return self.net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The value of an accumulator, or None if no accumulator has this name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        return dict(self.accumulators)

    def __str__(self) -> str:
        return (
            f"Program execution finished\nJob with JobID {self.job_id} has finished.\n"
            f"Job Runtime: {self.net_runtime} ms\n"
        )
