"""What happens to the last checkpoint when a job is cancelled."""

from __future__ import annotations

import enum

__all__ = ["ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(enum.Enum):
    """Whether checkpoints are retained on cancellation.

    Retained checkpoints can be used to start a job. The user is responsible for deleting them.
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


#: The name of the same choice in Flink 1.x.
ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
