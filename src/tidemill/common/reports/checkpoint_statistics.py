"""Statistics of a job's checkpoints: individual checkpoints and total counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CheckpointHistory", "CheckpointStatistics", "CheckpointStatus", "SubtaskCheckpoint"]


class CheckpointStatus(Enum):
    """How a checkpoint ended."""

    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class SubtaskCheckpoint:
    """What one subtask contributed to a checkpoint.

    ``chain`` is the uid of the first operator of its chain. ``bytes`` is the size of the changes that it wrote, and
    ``rows`` their number by operator (uid) and state. ``write`` is the time for writing them, and ``duration`` that of
    its whole epoch, in milliseconds.
    """

    chain: str
    subtask: int
    bytes: int
    write: float
    duration: float
    rows: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class CheckpointStatistics:
    """One checkpoint or savepoint.

    ``checkpoint_id`` is the epoch at the end of which it was taken. ``trigger_timestamp`` is in milliseconds since
    1970, ``duration`` in milliseconds. ``incremental_size`` is the number of bytes that its epoch wrote,
    ``state_size`` the number of bytes in all files it refers to. ``retained`` indicates whether a job can still start
    from it: it may have been deleted since. ``failure`` is the reason if it failed. A savepoint has a ``path`` and
    belongs to the user: the job does not track whether it still exists. ``parts`` is what each subtask contributed; it
    is known only for recent checkpoints of this driver, not for savepoints.
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
    parts: tuple[SubtaskCheckpoint, ...] = ()


@dataclass(frozen=True)
class CheckpointHistory:
    """The most recent checkpoints and savepoints of a job, newest last, and the counts of all.

    ``restored`` is the checkpoint that this driver started from, or None for a new job. ``latest_savepoint`` is kept
    even after it has dropped out of ``checkpoints``.
    """

    completed: int
    failed: int
    restored: CheckpointStatistics | None
    checkpoints: tuple[CheckpointStatistics, ...]
    latest_savepoint: CheckpointStatistics | None = None

    @property
    def latest_completed(self) -> CheckpointStatistics | None:
        """The newest completed checkpoint, not counting savepoints."""
        completed = CheckpointStatus.COMPLETED
        done = [one for one in self.checkpoints if one.status is completed and not one.is_savepoint]
        return done[-1] if done else None
