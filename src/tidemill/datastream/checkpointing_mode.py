"""What a checkpoint promises."""

from __future__ import annotations

import enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(enum.Enum):
    """How often a record may affect state after a failure.

    Tidemill's epochs are exactly once in either mode; the mode is kept so that programs and tools can ask for it.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
