"""Asynchronous operations, as in Flink: one request starts an operation, others poll its result by id."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidemill.common.completable_future import CompletableFuture
from tidemill.errors import ConfigurationError, GraphError, JobCancelledError, JobExecutionError
from tidemill.ops.rest.errors import BadRequestError, ConflictError, ResourceNotFoundError, UnavailableError

__all__ = ["Operation", "Operations"]

#: Maximum number of operations that are remembered.
_MOST: Final = 1000


@dataclass(frozen=True)
class Operation:
    """An operation: ``kind`` and ``job`` (empty for none) are those of the path of the request that started it."""

    kind: str
    job: str
    future: CompletableFuture[Any]


class Operations:
    """The operations of a server. The oldest completed ones are forgotten first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        #: Held while an operation starts, so that the second of two equal requests finds the operation of the first.
        self._beginning = threading.Lock()
        self._known: OrderedDict[str, Operation] = OrderedDict()
        #: Operations whose completion has not been reported to a client yet.
        self._untold: set[str] = set()

    def known(self, kind: str, job: str, operation_id: str | None) -> bool:
        """Whether this operation was already started. A repeated request starts nothing."""
        with self._lock:
            found = self._known.get(operation_id or "")
        if found is not None and (found.kind, found.job) != (kind, job):
            raise ConflictError(f"triggerId {operation_id} belongs to another operation")
        return found is not None

    def begin(
        self, kind: str, job: str, begin: Callable[[], CompletableFuture[Any]], operation_id: str | None = None
    ) -> str:
        """Start an operation, unless one with this id exists, and return its id.

        Raises like :meth:`begun`, and :class:`UnavailableError` if too many operations are in progress.
        """
        with self._beginning:
            if operation_id is not None and self.known(kind, job, operation_id):
                return operation_id
            self.check_room()
            return self.begun(kind, job, begin(), operation_id)

    def begun(self, kind: str, job: str, future: CompletableFuture[Any], operation_id: str | None = None) -> str:
        """Remember a started operation and return its id.

        Raises if the request was invalid, or if the job has already ended. Any other failure, however early, is a
        failed operation.
        """
        error = future.exception()
        if isinstance(error, (ConfigurationError, GraphError)):
            raise BadRequestError(str(error))
        if isinstance(error, (JobExecutionError, JobCancelledError)):
            raise ConflictError(str(error))
        operation_id = operation_id or secrets.token_hex(16)
        with self._lock:
            done = [key for key, one in self._known.items() if one.future.done()]
            for key in done[: max(0, len(self._known) - _MOST + 1)]:
                del self._known[key]
                self._untold.discard(key)
            self._known[operation_id] = Operation(kind, job, future)
            self._untold.add(operation_id)
        return operation_id

    def check_room(self) -> None:
        """Raise :class:`UnavailableError` if too many operations are in progress."""
        with self._lock:
            if sum(not one.future.done() for one in self._known.values()) >= _MOST:
                raise UnavailableError(f"{_MOST} operations are in progress: try again when some have completed")

    def get(self, kind: str, job: str, operation_id: str) -> Operation:
        """Return the operation with an id. Raises :class:`ResourceNotFoundError`."""
        with self._lock:
            found = self._known.get(operation_id)
            if found is None or (found.kind, found.job) != (kind, job):
                raise ResourceNotFoundError(f"operation {operation_id} does not exist, or is no longer remembered")
            if found.future.done():
                self._untold.discard(operation_id)
                self._lock.notify_all()
        return found

    def await_told(self, seconds: float) -> bool:
        """Wait until all operations have completed and clients have received the results, or until the timeout.

        Returns whether there were any operations: their last responses may still be in transit.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self._untold, seconds)
            return bool(self._known)
