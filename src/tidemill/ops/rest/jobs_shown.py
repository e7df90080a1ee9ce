"""The jobs that a REST server shows: those of its process, also some that have ended, and those of a history."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from tidemill.checkpoint.storage.storages import Storage
from tidemill.common.configuration import Configuration
from tidemill.common.job_status import JobStatus
from tidemill.config import CheckpointingOptions
from tidemill.graph.plan import ChainPlan, JobPlan, OperatorPlan
from tidemill.ops.rest.errors import ResourceNotFoundError
from tidemill.ops.rest.figures import NOW_METRICS, Figures
from tidemill.ops.rest.models.jobs import JobOverview
from tidemill.ops.rest.models.vertices import VertexNow
from tidemill.runtime.driver.job import JobOutline, RunningJob
from tidemill.runtime.history.archived_job import ArchivedJob

__all__ = ["OtherJobs", "ShownJob", "ShownJobs", "StatePlace", "vertex_id"]

T = TypeVar("T")
#: For how many seconds metrics are cached: the interval between two events of a stream.
_FRESH: Final = 2.0
#: The states in which a job has ended.
_ENDS: Final = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED)


def vertex_id(uid: str) -> str:
    """Return the id of an operator in a path: 32 hexadecimal digits, as in Flink, whatever its uid is.

    >>> vertex_id("count")
    '6c35493a2b937829c9815c39e23af964'
    """
    return hashlib.sha256(uid.encode()).hexdigest()[:32]


class Now(NamedTuple):
    """The current metrics of the vertices of a job, in the order of its chains, and the same as JSON."""

    vertices: list[VertexNow]
    text: str


class _Look(Generic[T]):
    """A cached observation of a job, at most two seconds old, so that many clients cause only one observation.

    Once the job has ended, the final observation is returned.
    """

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


class StatePlace(NamedTuple):
    """Where the committed state of a job is, and the configuration with the credentials to read it."""

    location: Storage | str
    job_id: str
    configuration: Configuration


class ShownJob:
    """A job, as a server sees it. Nothing here waits for the job or changes it.

    For a job of a history, ``shown_as`` is its id, which is not that of the job for earlier starts of a job, and
    ``state`` is where its state is, or None if that is not known.
    """

    def __init__(
        self,
        client: RunningJob | ArchivedJob,
        outline: JobOutline,
        *,
        shown_as: str | None = None,
        state: StatePlace | None = None,
    ) -> None:
        self.client = client
        self.outline = outline
        self.id = shown_as or str(client.get_job_id())
        self.name = client.name
        self._state = state
        #: All metrics.
        self.figures = _Look(self, lambda: Figures(client.get_metrics()))
        #: The current metrics of the vertices: the cheap subset, which web pages request all the time.
        self.now = _Look(self, self._now)

    @property
    def plan(self) -> JobPlan:
        """The compiled program."""
        return self.outline.plan

    @property
    def status(self) -> JobStatus:
        """The status of the job."""
        return self.client.get_job_status().result(0)

    @property
    def is_over(self) -> bool:
        """Whether this process is done with the job."""
        return self.status.is_terminal_state()

    @property
    def record_time(self) -> int | None:
        """When the record of a job of a history was written, in milliseconds since 1970. None for a job of a driver."""
        return self.client.record.written if isinstance(self.client, ArchivedJob) else None

    @property
    def state_place(self) -> StatePlace:
        """Where the state of the job is. Raises :class:`ResourceNotFoundError` if that is not known."""
        if self._state is not None:
            return self._state
        if isinstance(self.client, ArchivedJob):
            raise ResourceNotFoundError(
                f"the state of job {self.id} is not shown here: the history has it only for the last start of a job, "
                "and if it is in the checkpoint directory. 'tidemill state' reads any checkpoint"
            )
        configuration = self.outline.configuration
        directory = configuration.get(CheckpointingOptions.DIRECTORY)
        location = self.outline.storage if directory is None else f"{directory.rstrip('/')}/{self.id}"
        return StatePlace(location, self.id, configuration)

    @property
    def started(self) -> int:
        """When the job was started, in milliseconds since 1970."""
        return self.client.get_status_timestamps().get(JobStatus.CREATED, 0)

    @property
    def ended(self) -> int | None:
        """When the job ended, or None if it has not ended."""
        entered = self.client.get_status_timestamps()
        return next((entered[status] for status in _ENDS if status in entered), None)

    @property
    def duration(self) -> int:
        """How long the job has been running, or ran, in milliseconds."""
        return (self.ended or time.time_ns() // 1_000_000) - self.started

    def _now(self) -> Now:
        figures = Figures(self.client.get_metrics_named(NOW_METRICS))
        chains = self.plan.chains
        told = [figures.now(chain, vertex_id(chain.head.uid), self.parallelism(chain)) for chain in chains]
        return Now(told, json.dumps(told))

    def chain(self, vertex: str) -> ChainPlan:
        """Return the chain with a vertex id or with the uid of its first operator.

        Raises :class:`ResourceNotFoundError`.
        """
        for chain in self.plan.chains:
            if vertex in (vertex_id(chain.head.uid), chain.head.uid):
                return chain
        raise ResourceNotFoundError(f"job {self.id} has no vertex {vertex!r}; /jobs/{self.id} lists them")

    def operator(self, operator: str) -> OperatorPlan | None:
        """Return the operator with an id or uid."""
        found = (one for chain in self.plan.chains for one in chain.operators)
        return next((one for one in found if operator in (one.uid, vertex_id(one.uid))), None)

    def parallelism(self, chain: ChainPlan) -> int:
        """Return the number of subtasks of a chain in the current or next epoch."""
        return self.outline.parallelism.of(chain.id)


class OtherJobs(Protocol):
    """Jobs that were not started in the process of the server; ``is_history`` if it can only show their records."""

    is_history: bool

    def overviews(self) -> list[JobOverview]:
        """Return them for the list of jobs."""
        ...

    def find(self, job_id: str) -> ShownJob | None:
        """Return the job with this id if it can be shown here."""
        ...


class ShownJobs:
    """The jobs of one server, newest last, and those that are not its own. The oldest ended jobs are forgotten.

    Thread-safe.
    """

    def __init__(self, ended_kept: int, others: OtherJobs | None = None) -> None:
        self.others = others
        self._ended_kept = ended_kept
        self._lock = threading.Lock()
        self._jobs: dict[str, ShownJob] = {}

    def add(self, job: ShownJob) -> None:
        """Show a job. An earlier job with the same id is forgotten."""
        with self._lock:
            self._jobs.pop(job.id, None)
            self._jobs[job.id] = job
            ended = [one.id for one in self._jobs.values() if one.is_over]
            for forgotten in ended[: max(0, len(ended) - self._ended_kept)]:
                del self._jobs[forgotten]

    def all(self) -> list[ShownJob]:
        """Return all jobs of this process."""
        with self._lock:
            return list(self._jobs.values())

    def get(self, job_id: str) -> ShownJob:
        """Return the job with this id. Raises :class:`ResourceNotFoundError`."""
        with self._lock:
            found = self._jobs.get(job_id)
        if found is None and self.others is not None:
            found = self.others.find(job_id)
        if found is None:
            raise ResourceNotFoundError(
                f"Job {job_id} not found: it was not started in this process, or is no longer remembered"
            )
        return found
