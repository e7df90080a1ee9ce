"""The jobs that a REST server shows: those that were started in its process, and the last of those that ended."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Final

from tidemill.common.job_status import JobStatus
from tidemill.graph.plan import ChainPlan, JobPlan, OperatorPlan
from tidemill.ops.rest.errors import NotFoundError
from tidemill.ops.rest.figures import Figures
from tidemill.runtime.job import RunningJob
from tidemill.runtime.job_outline import JobOutline

__all__ = ["ShownJob", "ShownJobs", "vertex_id"]

#: Seconds for which metrics are not looked at again.
_FRESH: Final = 1.0
#: The states in which a job has its end.
_ENDS: Final = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED)


def vertex_id(uid: str) -> str:
    """What stands for an operator in a path: as Flink's, 32 hexadecimal digits, whatever its uid is.

    >>> vertex_id("count")
    '6c35493a2b937829c9815c39e23af964'
    """
    return hashlib.sha256(uid.encode()).hexdigest()[:32]


class ShownJob:
    """One job, as a server sees it. Nothing here waits for the job, or changes it."""

    def __init__(self, client: RunningJob, outline: JobOutline) -> None:
        self.client = client
        self.outline = outline
        self.id = str(client.get_job_id())
        self.name = client.name
        self._seen: tuple[float, Figures] | None = None

    @property
    def plan(self) -> JobPlan:
        """The compiled program."""
        return self.outline.plan

    @property
    def status(self) -> JobStatus:
        """What the job is doing."""
        return self.client.get_job_status().result(0)

    @property
    def is_over(self) -> bool:
        """Whether this process is done with the job."""
        return self.status.is_terminal_state()

    @property
    def started(self) -> int:
        """When it was started, in milliseconds since 1970."""
        return self.client.get_status_timestamps().get(JobStatus.CREATED, 0)

    @property
    def ended(self) -> int | None:
        """When it ended, None if it has not."""
        entered = self.client.get_status_timestamps()
        return next((entered[status] for status in _ENDS if status in entered), None)

    @property
    def duration(self) -> int:
        """For how long it has run, or ran, in milliseconds."""
        return (self.ended or time.time_ns() // 1_000_000) - self.started

    def figures(self) -> Figures:
        """The metrics of the job, a second old at most: that many clients look at them costs one look."""
        seen = self._seen
        if seen is None or time.monotonic() - seen[0] > _FRESH:
            seen = self._seen = (time.monotonic(), Figures(self.client.get_metrics()))
        return seen[1]

    def chain(self, vertex: str) -> ChainPlan:
        """The chain that a vertex id, or the uid of its first operator, stands for. Raises :class:`NotFoundError`."""
        for chain in self.plan.chains:
            if vertex in (vertex_id(chain.head.uid), chain.head.uid):
                return chain
        raise NotFoundError(f"job {self.id} has no vertex {vertex!r}; /jobs/{self.id} lists them")

    def operator(self, operator: str) -> OperatorPlan | None:
        """The operator that an id or uid stands for."""
        found = (one for chain in self.plan.chains for one in chain.operators)
        return next((one for one in found if operator in (one.uid, vertex_id(one.uid))), None)

    def parallelism(self, chain: ChainPlan) -> int:
        """How many subtasks a chain has in the epoch that runs, or runs next."""
        return self.outline.parallelism.of(chain.id)


class ShownJobs:
    """The jobs of one server, newest last; of those that ended the oldest are forgotten. Any thread may use it."""

    def __init__(self, ended_kept: int) -> None:
        self._ended_kept = ended_kept
        self._lock = threading.Lock()
        self._jobs: dict[str, ShownJob] = {}

    def add(self, job: ShownJob) -> None:
        """Show a job. One of the same id, that ran before, is forgotten."""
        with self._lock:
            self._jobs.pop(job.id, None)
            self._jobs[job.id] = job
            ended = [one.id for one in self._jobs.values() if one.is_over]
            for forgotten in ended[: max(0, len(ended) - self._ended_kept)]:
                del self._jobs[forgotten]

    def all(self) -> list[ShownJob]:
        """All of them."""
        with self._lock:
            return list(self._jobs.values())

    def get(self, job_id: str) -> ShownJob:
        """The job of this id. Raises :class:`NotFoundError`."""
        with self._lock:
            found = self._jobs.get(job_id)
        if found is None:
            raise NotFoundError(f"Job {job_id} not found: it was not started in this process, or is forgotten")
        return found
