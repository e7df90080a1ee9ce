"""What is told of an epoch when it is committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.checkpoint.model import Epoch


@dataclass(frozen=True)
class EpochStats:
    """What one committed epoch cost and did, for progress displays and metrics.

    ``metrics`` are what it counted; who remembers many epochs does not keep that of all.
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
    #: When it was done, in milliseconds since 1970.
    ended: int = 0
    #: Where its time went, in milliseconds: see ``tidemill.runtime.driver.job_metrics.phases_of``.
    phases: Mapping[str, float] = field(default_factory=dict)
