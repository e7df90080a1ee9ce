"""What becomes of the last checkpoint when a job is cancelled."""

from __future__ import annotations

import enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(enum.Enum):
    """Retained checkpoints belong to the user, who deletes them; a job can be started from them."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
