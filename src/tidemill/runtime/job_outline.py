"""What a job is, beside what it does: for those who show it to people."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.checkpoint.storage import Storage
from tidemill.common.configuration import Configuration
from tidemill.graph.plan import JobPlan
from tidemill.runtime.rescaling import JobParallelism

__all__ = ["JobOutline"]


@dataclass(frozen=True)
class JobOutline:
    """The compiled program of a job, its settings, where it keeps what is durable, and how wide its chains are now."""

    plan: JobPlan
    configuration: Configuration
    storage: Storage
    parallelism: JobParallelism
