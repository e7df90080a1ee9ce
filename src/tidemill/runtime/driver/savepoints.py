"""The savepoints of a running job: requested at any time, started between two epochs.

A savepoint contains the head manifest, all of whose results are committed by then. A job that continues pins the
manifest, so that none of its files is deleted, and copies it in a background thread. A job that ends with the savepoint
runs nothing after it, and waits for the copy. An error during a copy fails only the request: the job continues, and the
directory contains nothing that could be mistaken for a savepoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum, auto

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Manifest, Slot
from tidemill.checkpoint.portable import portable
from tidemill.checkpoint.savepoint import Options, SavepointFiles
from tidemill.checkpoint.storage.storages import Storage
from tidemill.common.completable_future import CompletableFuture
from tidemill.config import CheckpointingOptions
from tidemill.errors import ConfigurationError, GraphError, JobExecutionError
from tidemill.runtime.driver.checkpointing import Checkpointing

log = logging.getLogger(__name__)


class Ending(Enum):
    """What the job does after a savepoint."""

    GO_ON = auto()
    STOP = auto()
    DRAIN = auto()
    CANCEL = auto()


@dataclass
class _Request:
    directory: str
    ending: Ending
    future: CompletableFuture[str] = field(default_factory=CompletableFuture)


class Savepoints:
    """The savepoints of one job, for all its executions in this driver. Safe to use from several threads.

    The job's thread calls :meth:`take` between two epochs if any are :attr:`pending`. When the job is over, it calls
    :meth:`settle` before the storage is closed, and :meth:`end` as the very last step.
    """

    def __init__(
        self,
        job_id: str,
        storage: Storage,
        directory: str | None = None,
        *,
        options: Options = None,
        batch: bool = False,
        history: Checkpointing | None = None,
    ) -> None:
        """``directory`` is the default for requests without one, ``options`` are those of an object store.

        Requests to a ``batch`` job fail. ``history`` records the outcome of each savepoint.
        """
        # configuration
        self._job_id = job_id
        self._storage = storage
        self._directory = directory
        self._options = options
        self._batch = batch
        self._history = history or Checkpointing()
        # transient
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._pins: dict[int, Slot] = {}
        self._copier: ThreadPoolExecutor | None = None
        self._given_up = threading.Event()
        self._final: tuple[CompletableFuture[str], str] | None = None
        self._over: BaseException | None = None

    @property
    def pending(self) -> bool:
        """Whether a savepoint is waiting to be started."""
        return bool(self._waiting)

    def pinned(self) -> list[Slot]:
        """The slots of the manifests that are being copied."""
        with self._lock:
            return list(self._pins.values())

    def request(self, directory: str | None, ending: Ending) -> CompletableFuture[str]:
        """Request a savepoint in ``directory``, or in the configured one; the future returns its path.

        A request waits for the next moment between two epochs. It survives failures of the job.
        """
        chosen = directory or self._directory
        if self._batch:
            return CompletableFuture.failed(
                GraphError(
                    "a job in BATCH mode is one epoch and has no savepoints. Set execution.runtime-mode: STREAMING"
                )
            )
        if not chosen:
            return CompletableFuture.failed(
                ConfigurationError(
                    "no directory for the savepoint is set. Name a directory, or set a default with "
                    f"{CheckpointingOptions.SAVEPOINT_DIRECTORY.key}"
                )
            )
        request = _Request(chosen, ending)
        with self._lock:
            if self._over is not None:
                return CompletableFuture.failed(self._over)
            self._waiting.append(request)
        return request.future

    def take(self, manifests: ManifestLog, drain: Callable[[], object], cancel: Callable[[], object]) -> bool:
        """Start the requested savepoints; return whether the job is over. Must be called between two epochs.

        ``drain`` runs an epoch without input that advances event time to its end; an error in it fails the job.
        ``cancel`` requests that the job ends as a cancelled one.
        """
        while (request := self._next()) is not None:
            if request.ending is Ending.GO_ON:
                self._copy_meanwhile(request, manifests)
            elif self._end_with(request, manifests, drain):
                if request.ending is Ending.CANCEL:
                    cancel()
                return True
        return False

    def give_up(self) -> None:
        """Abort running copies and fail their requests, because the job is cancelled."""
        self._given_up.set()

    def settle(self) -> None:
        """Wait for running copies, before the storage of a job that is over is closed."""
        if self._copier is not None:
            self._copier.shutdown(wait=True)

    def end(self, error: BaseException | None) -> None:
        """Complete the request for the final savepoint, and fail waiting and later requests: the job has ended."""
        with self._lock:
            self._over = error or JobExecutionError("the job has finished: savepoints can no longer be taken")
            left, self._waiting = self._waiting, []
        if self._final is not None:
            future, path = self._final
            future._future.set_result(path)
        for request in left:
            if request.future._future.set_running_or_notify_cancel():
                request.future._future.set_exception(self._over)

    def _next(self) -> _Request | None:
        """The next request that its caller has not cancelled."""
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                request = self._waiting.pop(0)
            if request.future._future.set_running_or_notify_cancel():
                return request

    def _copy_meanwhile(self, request: _Request, manifests: ManifestLog) -> None:
        head = manifests.head
        with self._lock:
            self._pins[id(request)] = head.slot
        if self._copier is None:
            self._copier = ThreadPoolExecutor(1, thread_name_prefix="tidemill-savepoint")

        def copy() -> None:
            try:
                path = self._write(self._writer(request, head), manifests, head)
            except BaseException as error:
                request.future._future.set_exception(error)
            else:
                request.future._future.set_result(path)
            finally:
                with self._lock:
                    del self._pins[id(request)]

        self._copier.submit(copy)

    def _end_with(self, request: _Request, manifests: ManifestLog, drain: Callable[[], object]) -> bool:
        """Take the final savepoint of a job; return False if it failed and the job can continue.

        A drained job cannot continue, because its windows have fired. Write access to the directory is therefore
        checked before draining.
        """
        drained = request.ending is Ending.DRAIN
        try:
            writer = self._writer(request, manifests.head)
        except Exception as error:
            return self._failed(request, error)
        if drained:
            try:
                drain()
            except BaseException as error:
                writer.give_up()
                request.future._future.set_exception(error)
                raise
        try:
            path = self._write(writer, manifests, manifests.head)
        except Exception as error:
            return self._failed(request, error) or drained
        self._final = (request.future, path)
        return True

    def _failed(self, request: _Request, error: Exception) -> bool:
        log.warning("the final savepoint of job %s failed: %s", self._job_id, error)
        request.future._future.set_exception(error)
        return False

    def _writer(self, request: _Request, head: Manifest) -> SavepointFiles:
        triggered, started = _now(), time.monotonic()
        try:
            return SavepointFiles(request.directory, self._job_id, self._options)
        except Exception as error:
            self._history.not_saved(error, head.epoch, triggered, time.monotonic() - started)
            raise

    def _write(self, writer: SavepointFiles, manifests: ManifestLog, head: Manifest) -> str:
        triggered, started = _now(), time.monotonic()
        try:
            state = portable(self._storage, manifests, head, writer.token, f"epoch {head.epoch} of job {self._job_id}")
            path = writer.write(state, self._given_up.is_set)
        except Exception as error:
            writer.give_up()
            self._history.not_saved(error, head.epoch, triggered, time.monotonic() - started)
            raise
        self._history.saved(head, path, triggered, time.monotonic() - started)
        log.info("savepoint of epoch %d of job %s: %s", head.epoch, self._job_id, path)
        return path


def _now() -> int:
    return time.time_ns() // 1_000_000
