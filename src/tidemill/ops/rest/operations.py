"""What takes time: begun by one request, asked after by others, by an id. As in Flink."""

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

#: How many operations are remembered.
_MOST: Final = 1000


@dataclass(frozen=True)
class Operation:
    """Something that was begun: ``kind`` and ``job`` (empty for none) are those of the path it was begun at."""

    kind: str
    job: str
    future: CompletableFuture[Any]


class Operations:
    """All of one server; those that are done are forgotten from the oldest on. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        #: Held while something begins, so that of two equal requests one sees what the other has begun.
        self._beginning = threading.Lock()
        self._known: OrderedDict[str, Operation] = OrderedDict()
        #: Those whose end nobody has been told of.
        self._untold: set[str] = set()

    def known(self, kind: str, job: str, operation_id: str | None) -> bool:
        """Whether this was begun already: the same request, sent again, begins nothing."""
        with self._lock:
            found = self._known.get(operation_id or "")
        if found is not None and (found.kind, found.job) != (kind, job):
            raise ConflictError(f"triggerId {operation_id} stands for another operation")
        return found is not None

    def begin(
        self, kind: str, job: str, begin: Callable[[], CompletableFuture[Any]], operation_id: str | None = None
    ) -> str:
        """Begin something, unless the id stands for it already, and remember it; its id. Raises as :meth:`begun` does,
        and :class:`UnavailableError` if too many are going on."""
        with self._beginning:
            if operation_id is not None and self.known(kind, job, operation_id):
                return operation_id
            self.check_room()
            return self.begun(kind, job, begin(), operation_id)

    def begun(self, kind: str, job: str, future: CompletableFuture[Any], operation_id: str | None = None) -> str:
        """Remember what was begun; its id. Raises for what was wrong from the start, or came when the job was over.

        What fails otherwise, however soon, is an operation that failed.
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
        """Raise :class:`UnavailableError` if too many are going on."""
        with self._lock:
            if sum(not one.future.done() for one in self._known.values()) >= _MOST:
                raise UnavailableError(f"{_MOST} operations are going on: wait for some of them")

    def get(self, kind: str, job: str, operation_id: str) -> Operation:
        """What an id stands for. Raises :class:`ResourceNotFoundError`."""
        with self._lock:
            found = self._known.get(operation_id)
            if found is None or (found.kind, found.job) != (kind, job):
                raise ResourceNotFoundError(f"there is no operation {operation_id}, or it is forgotten")
            if found.future.done():
                self._untold.discard(operation_id)
                self._lock.notify_all()
        return found

    def await_told(self, seconds: float) -> bool:
        """Wait until all operations have ended and somebody was told so, but no longer than this.

        Returns whether there were any: their last answers may still be on the way.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self._untold, seconds)
            return bool(self._known)
