"""The consistency guarantee of checkpoints."""

from __future__ import annotations

import enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(enum.Enum):
    """Whether a record affects state exactly once or at least once if there is a failure.

    Tidemill's epochs are exactly-once in both modes. The mode is only stored, so that programs and tools can read it.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
