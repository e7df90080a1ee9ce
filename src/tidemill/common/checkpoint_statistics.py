"""What is known of a job's checkpoints: each one, and the counts of all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CheckpointHistory", "CheckpointStatistics", "CheckpointStatus"]


class CheckpointStatus(Enum):
    """How a checkpoint ended."""

    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class CheckpointStatistics:
    """One checkpoint.

    ``checkpoint_id`` is the epoch at whose end it was made; times are milliseconds, ``trigger_timestamp`` since 1970.
    ``incremental_size`` is what its epoch wrote, ``state_size`` what all files it refers to hold, both in bytes.
    ``retained`` tells whether a job can still start from it: it may have been let go since. ``failure`` is the reason
    of one that failed.
    """

    checkpoint_id: int
    status: CheckpointStatus
    trigger_timestamp: int
    duration: int
    incremental_size: int = 0
    state_size: int = 0
    subtasks: int = 0
    retained: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class CheckpointHistory:
    """The checkpoints of a job, as far as they are remembered, newest last, and the counts of all.

    ``restored`` is the checkpoint that this driver started from, None for a new job.
    """

    completed: int
    failed: int
    restored: CheckpointStatistics | None
    checkpoints: tuple[CheckpointStatistics, ...]

    @property
    def latest_completed(self) -> CheckpointStatistics | None:
        """The newest checkpoint that is complete."""
        done = [one for one in self.checkpoints if one.status is CheckpointStatus.COMPLETED]
        return done[-1] if done else None
