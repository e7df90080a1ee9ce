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
    """One checkpoint, or savepoint.

    ``checkpoint_id`` is the epoch at whose end it was made; times are milliseconds, ``trigger_timestamp`` since 1970.
    ``incremental_size`` is what its epoch wrote, ``state_size`` what all files it refers to hold, both in bytes.
    ``retained`` tells whether a job can still start from it: it may have been let go since. ``failure`` is the reason
    of one that failed. A savepoint has a ``path``, and is its owner's: nobody here knows whether it is still there.
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
    is_savepoint: bool = False
    path: str | None = None


@dataclass(frozen=True)
class CheckpointHistory:
    """The checkpoints and savepoints of a job, as far as they are remembered, newest last, and the counts of all.

    ``restored`` is the checkpoint that this driver started from, None for a new job. ``latest_savepoint`` is remembered
    whatever came after it.
    """

    completed: int
    failed: int
    restored: CheckpointStatistics | None
    checkpoints: tuple[CheckpointStatistics, ...]
    latest_savepoint: CheckpointStatistics | None = None

    @property
    def latest_completed(self) -> CheckpointStatistics | None:
        """The newest checkpoint, no savepoint, that is complete."""
        completed = CheckpointStatus.COMPLETED
        done = [one for one in self.checkpoints if one.status is completed and not one.is_savepoint]
        return done[-1] if done else None
