"""A job from its submission to its end: a thread that runs it, restarts it after failures, and can be stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from tidemill.checkpoint.storage.storages import MemoryStorage, Storage
from tidemill.common.completable_future import CompletableFuture
from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.job_id import JobID
from tidemill.common.job_status import JobStatus
from tidemill.common.reports.checkpoint_statistics import CheckpointHistory
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.hot_keys import HotKeys
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.errors import LASTING, EngineLostError, FencedError, JobCancelledError, TidemillError
from tidemill.graph.plan import JobPlan
from tidemill.metrics.registry import MetricRegistry
from tidemill.runtime.batch.failures import user_error, without_payload
from tidemill.runtime.driver.checkpointing import Checkpointing
from tidemill.runtime.driver.job_metrics import JobMetrics
from tidemill.runtime.driver.owner_watch import OwnerWatch
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.driver.restarts import Restarts
from tidemill.runtime.driver.savepoints import Ending, Savepoints
from tidemill.runtime.history.archiver import Archiver
from tidemill.runtime.history.recording import Subject
from tidemill.runtime.observe.epoch_stats import EpochStats
from tidemill.runtime.observe.exception_history import ExceptionHistory
from tidemill.runtime.observe.log_place import PLACE, LogPlace
from tidemill.runtime.start.driver_record import DriverHeartbeat

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The number of failures in the exception history, as in Flink.
_HISTORY_SIZE: Final = 16
#: The number of epochs whose statistics are kept, and the number of those whose counts are kept as well: for a job with
#: 50 operators the counts take 15 KB per epoch.
_EPOCHS_KEPT: Final = 1000
_COUNTS_KEPT: Final = 100

#: How often a job that waits for its next execution calls the owner watch, in seconds.
_REST_SECONDS: Final = 0.5

#: Errors that end a job: another driver has taken it over, or a restart by this driver cannot fix them.
_FINAL: Final = (FencedError, EngineLostError, *LASTING)


class StopSignal:
    """Tells the thread that runs a job to end. Threads that wait on it wake up immediately."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._hooks: list[Callable[[], object]] = []

    def set(self) -> None:
        """Request that the job ends."""
        self._event.set()
        for hook in list(self._hooks):
            _interrupt(hook)

    @contextmanager
    def interrupting(self, hook: Callable[[], object]) -> Iterator[None]:
        """While the block runs, call ``hook`` when the job is requested to end, to interrupt what it waits for.

        If the request was made earlier, ``hook`` is called immediately. It may be called twice.
        """
        self._hooks.append(hook)
        try:
            if self._event.is_set():
                _interrupt(hook)
            yield
        finally:
            self._hooks.remove(hook)

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; return whether the job is to end."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raise :class:`JobCancelledError` if the job is to end."""
        if self._event.is_set():
            raise JobCancelledError("the job was cancelled")


@dataclass(frozen=True)
class JobOutline:
    """The compiled program of a job, its configuration, its durable storage, and the parallelism of its chains.

    ``resumes`` says from which epoch the job goes on; it is empty for a job that starts without state. ``record`` tells
    other drivers that this one runs the job, if it has durable storage.
    """

    plan: JobPlan
    configuration: Configuration
    storage: Storage
    parallelism: JobParallelism
    resumes: str = ""
    record: DriverHeartbeat | None = None


class RunningJob(JobClient):
    """A job that runs in a thread of this process.

    ``execution`` runs the job from its last committed epoch until it ends, and raises the error it failed with.
    ``cleanup`` is called once, when no part of the job is running any more.
    """

    def __init__(
        self,
        job_id: str,
        name: str,
        execution: Callable[[StopSignal], None],
        restarts: Restarts,
        cleanup: Callable[[], None],
        parallelism: JobParallelism,
        checkpointing: Checkpointing | None = None,
        exceptions: ExceptionHistory | None = None,
        savepoints: Savepoints | None = None,
        metrics: JobMetrics | None = None,
        outline: JobOutline | None = None,
        owner: OwnerWatch | None = None,
    ) -> None:
        self.name = name
        self.outline = outline
        self._job_id = JobID(job_id)
        self._execution = execution
        self._restarts = restarts
        self._cleanup = cleanup
        self._parallelism = parallelism
        self._owner = owner or OwnerWatch()
        self._checkpointing = checkpointing or Checkpointing()
        self._savepoints = savepoints or Savepoints(job_id, MemoryStorage())
        self._stop = StopSignal()
        self._checkpointing.pause_with(self._stop.wait)
        self._exceptions = exceptions or ExceptionHistory(_HISTORY_SIZE)
        self._entering = threading.Lock()
        self._status = JobStatus.CREATED
        self._entered: dict[JobStatus, int] = {JobStatus.CREATED: _now()}
        self._started = self._last_entered = time.monotonic()
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._ended: CompletableFuture[None] = CompletableFuture()
        self.epochs: list[EpochStats] = []
        self.num_restarts = 0
        self._totals: dict[str, Any] = {}
        self._registry = MetricRegistry(job_id, name) if metrics is None else metrics.registry
        self._hot_keys = None if metrics is None else metrics.hot_keys
        if metrics is not None:
            metrics.job_gauge("uptime", lambda: self._since(JobStatus.RUNNING))
            metrics.job_gauge("downtime", lambda: self._since(JobStatus.RESTARTING))
            metrics.job_gauge("numRestarts", lambda: self.num_restarts)
            metrics.job_gauge("lastCheckpointRestoreTimestamp", self._restored_at)
        self._archiver: Archiver | None = None
        self._thread = threading.Thread(target=self._main, name=f"tidemill-job-{job_id}", daemon=True)

    def start(self) -> RunningJob:
        """Start the thread of the job, and that of its history, and return immediately."""
        if self.outline is not None:
            self._archiver = Archiver.of(self._subject(self.outline))
        self._thread.start()
        if self._archiver is not None:
            self._archiver.start()
        return self

    def note_epoch(self, stats: EpochStats) -> None:
        """Record the statistics of an epoch. The last 1000 are kept, the last 100 of them with their counts."""
        self.epochs.append(stats)
        del self.epochs[:-_EPOCHS_KEPT]
        if len(self.epochs) > _COUNTS_KEPT:
            self.epochs[-_COUNTS_KEPT - 1] = replace(self.epochs[-_COUNTS_KEPT - 1], metrics={})
        for name, value in stats.metrics.items():
            self._totals[name] = self._totals.get(name, 0) + value

    def get_job_id(self) -> JobID:
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self._status)

    def cancel(self) -> CompletableFuture[None]:
        self._enter(JobStatus.CANCELLING)
        self._savepoints.give_up()
        self._stop.set()
        return self._ended

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        ending = Ending.DRAIN if advance_to_end_of_event_time else Ending.STOP
        return self._savepoints.request(savepoint_directory, ending)

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self._savepoints.request(savepoint_directory, Ending.CANCEL)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self._savepoints.request(savepoint_directory, Ending.GO_ON)

    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        return self._parallelism.request(parallelism)

    def get_checkpoint_history(self) -> CheckpointHistory:
        return self._checkpointing.history()

    def get_exception_history(self) -> list[ExceptionEntry]:
        return self._exceptions.entries()

    def get_status_timestamps(self) -> dict[JobStatus, int]:
        return dict(self._entered)

    def get_metrics(self) -> MetricSnapshot:
        return self._registry.snapshot()

    def get_metrics_named(self, names: frozenset[str]) -> MetricSnapshot:
        """The metrics with the given names only, for frequent requests."""
        return self._registry.snapshot(names)

    def get_hot_keys(self, operator: str) -> HotKeys | None:
        return None if self._hot_keys is None else self._hot_keys.of(operator)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed(dict(self._totals))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._result

    def _main(self) -> None:
        PLACE.set(LogPlace(str(self._job_id)))
        try:
            error = self._run_until_over()
        except BaseException as ended:
            error = ended
        self._finish(error)

    def _run_until_over(self) -> BaseException | None:
        rest = 0.0
        while True:
            try:
                self._rest(rest)
                if not self._stop.is_set():
                    self._enter(JobStatus.RUNNING)
                    self._execution(self._stop)
                return JobCancelledError("the job was cancelled") if self._stop.is_set() else None
            except BaseException as raised:
                if self._stop.is_set():
                    return JobCancelledError("the job was cancelled")
                # An exception such as SystemExit in a source or a listener must not end the driver.
                error = raised if isinstance(raised, Exception) else user_error("the driver of the job", raised)
                entry = self._exceptions.failed(error, _now())
                delay = self._delay_after(error)
                if delay is None:
                    self._enter(JobStatus.FAILING)
                    self._exceptions.followed_by("the job was not started again")
                    return self._told(error, entry)
                if not self._enter(JobStatus.RESTARTING):
                    self._exceptions.followed_by("the job was cancelled")
                    return JobCancelledError("the job was cancelled")
                self.num_restarts += 1
                self._exceptions.followed_by(f"started again after {delay} ms")
                told = without_payload(self._told(error, entry))
                log.warning("job %s failed and restarts in %d ms: %s", self.name, delay, told)
                log.debug("%s", error)
                rest = delay / 1000

    def _rest(self, seconds: float) -> None:
        """Wait before the next execution, unless the job is to end. Raises if another driver takes over the job."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stop.wait(min(left, _REST_SECONDS)):
            self._owner.look()

    def _delay_after(self, error: Exception) -> int | None:
        return None if isinstance(error, _FINAL) else self._restarts.after_failure(time.monotonic_ns() // 1_000_000)

    def _told(self, error: Exception, entry: ExceptionEntry) -> Exception:
        """The error, with a note if the job has failed several times at the same record."""
        if entry.times == 1 or not isinstance(error, TidemillError):
            return error
        told = type(error)(
            f"{error}\n\nThe job has failed {entry.times} times at the same record, after each restart. Fix the input "
            "or the function, or divert the records that the function cannot process: "
            ".on_error(ErrorPolicy.side_output(tag))"
        )
        told.site = error.site
        return told

    def _restored_at(self) -> int | None:
        """When the job last started to run from a checkpoint; None if it started without state."""
        from_nothing = not self.num_restarts and self._checkpointing.history().restored is None
        return None if from_nothing else self._entered.get(JobStatus.RUNNING)

    def _since(self, status: JobStatus) -> int:
        """Milliseconds since the job entered ``status``; 0 if it is in another status."""
        return int((time.monotonic() - self._last_entered) * 1000) if self._status is status else 0

    def _enter(self, status: JobStatus) -> bool:
        """Enter a status; return whether the job is in it. A job that has ended, or is being cancelled, stays so."""
        with self._entering:
            if self._status.is_terminal_state():
                return False
            if self._status is JobStatus.CANCELLING and not status.is_terminal_state():
                return status is JobStatus.CANCELLING
            self._status = status
            self._entered[status] = _now()
            self._last_entered = time.monotonic()
            return True

    def _finish(self, error: BaseException | None) -> None:
        self._savepoints.settle()
        try:
            self._cleanup()
        except Exception as problem:
            log.warning("cleaning up after job %s failed: %s", self.name, problem)
        self._parallelism.end(error)
        runtime = int((time.monotonic() - self._started) * 1000)
        self._enter(JobStatus.FINISHED if error is None else _end_of(error))
        # Before anyone is notified, because the process may end as soon as the main thread is.
        self._archive()
        if error is None:
            self._result._future.set_result(JobExecutionResult(self._job_id, runtime, dict(self._totals)))
        else:
            self._result._future.set_exception(error)
        self._savepoints.end(error)
        self._ended._future.set_result(None)

    def _subject(self, outline: JobOutline) -> Subject:
        """The job, for its history."""
        return Subject(
            client=self,
            name=self.name,
            plan=outline.plan,
            configuration=outline.configuration,
            parallelism=outline.parallelism.of,
            epochs=lambda: self.epochs,
            restarts=lambda: self.num_restarts,
        )

    def _archive(self) -> None:
        """Write the final record of the history."""
        if self._archiver is not None:
            self._archiver.finish()


def _interrupt(hook: Callable[[], object]) -> None:
    try:
        hook()
    except Exception as error:
        log.warning("a job that is ending could not be interrupted: %s", error)


def _end_of(error: BaseException) -> JobStatus:
    """The status of a job that did not finish. A job that another driver has taken over is only suspended here."""
    if isinstance(error, JobCancelledError):
        return JobStatus.CANCELED
    return JobStatus.SUSPENDED if isinstance(error, FencedError) else JobStatus.FAILED


def _now() -> int:
    return time.time_ns() // 1_000_000
