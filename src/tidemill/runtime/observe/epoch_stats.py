"""Statistics of a committed epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.checkpoint.model import Epoch


@dataclass(frozen=True)
class EpochStats:
    """The cost and the results of one committed epoch, for progress displays and metrics.

    ``metrics`` are the counts of the epoch. Components that remember many epochs do not keep them for all epochs.
    """

    epoch: Epoch
    records_in: int
    seconds: float
    run_seconds: float
    publish_seconds: float
    commit_seconds: float
    delta_bytes: int
    state_entries: int
    runs: int
    metrics: Mapping[str, float]
    #: When the epoch ended, in milliseconds since 1970.
    ended: int = 0
    #: The time spent in each phase, in milliseconds: see ``tidemill.runtime.driver.job_metrics.phases_of``.
    phases: Mapping[str, float] = field(default_factory=dict)
