"""The jobs that a REST server shows: those that were started in its process, and the last of those that ended."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from tidemill.common.job_status import JobStatus
from tidemill.graph.plan import ChainPlan, JobPlan, OperatorPlan
from tidemill.ops.rest.errors import ResourceNotFoundError
from tidemill.ops.rest.figures import NOW_METRICS, Figures
from tidemill.ops.rest.models.vertices import VertexNow
from tidemill.runtime.driver.job import JobOutline, RunningJob

__all__ = ["ShownJob", "ShownJobs", "vertex_id"]

T = TypeVar("T")
#: Seconds for which metrics are not looked at again: as long as between two events of a stream.
_FRESH: Final = 2.0
#: The states in which a job has its end.
_ENDS: Final = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED)


def vertex_id(uid: str) -> str:
    """What stands for an operator in a path: as Flink's, 32 hexadecimal digits, whatever its uid is.

    >>> vertex_id("count")
    '6c35493a2b937829c9815c39e23af964'
    """
    return hashlib.sha256(uid.encode()).hexdigest()[:32]


class Now(NamedTuple):
    """What the vertices of a job do, in the order of its chains, and the same as JSON."""

    vertices: list[VertexNow]
    text: str


class _Look(Generic[T]):
    """What is seen of a job, at most two seconds old, as at its end once it is over: many who ask cost one look."""

    def __init__(self, job: ShownJob, look: Callable[[], T]) -> None:
        self._job = job
        self._look = look
        self._lock = threading.Lock()
        self._seen: tuple[T, float, bool] | None = None

    def __call__(self) -> T:
        with self._lock:
            is_over = self._job.is_over
            if self._seen is not None:
                seen, at, at_end = self._seen
                if at_end == is_over and (is_over or time.monotonic() - at <= _FRESH):
                    return seen
            at = time.monotonic()
            seen = self._look()
            self._seen = (seen, at, is_over)
            return seen


class ShownJob:
    """One job, as a server sees it. Nothing here waits for the job, or changes it."""

    def __init__(self, client: RunningJob, outline: JobOutline) -> None:
        self.client = client
        self.outline = outline
        self.id = str(client.get_job_id())
        self.name = client.name
        #: All metrics.
        self.figures = _Look(self, lambda: Figures(client.get_metrics()))
        #: What the vertices do: of what pages look at all the time, this is the part that is cheap.
        self.now = _Look(self, self._now)

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

    def _now(self) -> Now:
        figures = Figures(self.client.get_metrics_named(NOW_METRICS))
        chains = self.plan.chains
        told = [figures.now(chain, vertex_id(chain.head.uid), self.parallelism(chain)) for chain in chains]
        return Now(told, json.dumps(told))

    def chain(self, vertex: str) -> ChainPlan:
        """The chain of a vertex id or of the uid of its first operator. Raises :class:`ResourceNotFoundError`."""
        for chain in self.plan.chains:
            if vertex in (vertex_id(chain.head.uid), chain.head.uid):
                return chain
        raise ResourceNotFoundError(f"job {self.id} has no vertex {vertex!r}; /jobs/{self.id} lists them")

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
        """The job of this id. Raises :class:`ResourceNotFoundError`."""
        with self._lock:
            found = self._jobs.get(job_id)
        if found is None:
            raise ResourceNotFoundError(f"Job {job_id} not found: it was not started in this process, or is forgotten")
        return found
