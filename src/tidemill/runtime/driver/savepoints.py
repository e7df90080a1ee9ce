"""The savepoints of a running job: asked for at any time, begun between two epochs.

What is saved is the head manifest, all of whose results are committed by then. A job that goes on pins it, so that none
of its files is deleted, and copies it in a background thread. A job that ends with the savepoint runs nothing after it,
and waits for the copy. Whatever goes wrong with a copy fails the request and nothing else: the job goes on, and the
directory holds nothing that could be taken for a savepoint.
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
    """What becomes of the job after a savepoint."""

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
    """The savepoints of one job, for all its attempts in this driver. Safe to use from several threads.

    The job's thread calls :meth:`take` between two epochs if there are any :attr:`pending`; when the job is over,
    :meth:`settle` before its storage goes, and :meth:`end` as the last thing of all.
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
        """``directory`` is for requests that name none, ``options`` are an object store's; a ``batch`` job refuses.

        ``history`` remembers what became of each.
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
        """Whether a savepoint is to be begun."""
        return bool(self._waiting)

    def pinned(self) -> list[Slot]:
        """The slots of the manifests that are being copied."""
        with self._lock:
            return list(self._pins.values())

    def request(self, directory: str | None, ending: Ending) -> CompletableFuture[str]:
        """Ask for a savepoint in ``directory``, or the configured one; the value is its path.

        A request waits for the next moment between two epochs, also over failures of the job.
        """
        chosen = directory or self._directory
        if self._batch:
            return CompletableFuture.failed(
                GraphError(
                    "a job in BATCH mode is one epoch, and has no savepoints. Set execution.runtime-mode: STREAMING"
                )
            )
        if not chosen:
            return CompletableFuture.failed(
                ConfigurationError(
                    "where should the savepoint go? Name a directory, or set a default one with "
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
        """No epoch runs: begin what was asked for. Returns whether the job is over now.

        ``drain`` runs an epoch without input that moves time to its end; what it raises fails the job. ``cancel`` asks
        the job to end as a cancelled one.
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
        """The job is cancelled: copies that are being made end soon, and their requests fail."""
        self._given_up.set()

    def settle(self) -> None:
        """The job is over, and its storage about to go: wait for copies that are being made."""
        if self._copier is not None:
            self._copier.shutdown(wait=True)

    def end(self, error: BaseException | None) -> None:
        """The job has ended: the savepoint it ended with is told, what waits or comes later fails."""
        with self._lock:
            self._over = error or JobExecutionError("the job has finished: no savepoint can be taken of it any more")
            left, self._waiting = self._waiting, []
        if self._final is not None:
            future, path = self._final
            future._future.set_result(path)
        for request in left:
            if request.future._future.set_running_or_notify_cancel():
                request.future._future.set_exception(self._over)

    def _next(self) -> _Request | None:
        """The next request, unless its owner has cancelled it."""
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
        """Take the savepoint a job ends with; False if it failed and the job can go on.

        A drained job cannot: its windows have fired. That the directory can be written is therefore tried before.
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
        log.warning("job %s was to end with a savepoint, which failed: %s", self._job_id, error)
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
