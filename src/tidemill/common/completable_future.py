"""The result of something that goes on in the background."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")
U = TypeVar("U")


class CompletableFuture(Generic[T]):
    """Holds a value once there is one. Of several attempts to complete it, the first one counts.

    >>> future = CompletableFuture.completed(3)
    >>> future.done(), future.result()
    (True, 3)
    """

    def __init__(self, future: Future[T] | None = None) -> None:
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: U) -> CompletableFuture[U]:
        """A future that has its value already."""
        future: CompletableFuture[U] = CompletableFuture()
        future._future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[U]:
        """A future that has failed already."""
        future: CompletableFuture[U] = CompletableFuture()
        future._future.set_exception(error)
        return future

    def cancel(self) -> bool:
        """Cancels it if it is not done and has not begun; tells whether it is cancelled now."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether it has a value, has failed or was cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits, at most ``timeout`` seconds, and returns the value or raises the error it failed with."""
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """The error it failed with. None if it has not failed, or not yet: this does not wait."""
        if not self._future.done():
            return None
        if self._future.cancelled():
            return CancelledError()
        return self._future.exception()

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Calls ``callback`` with this future when it is done; at once if it is."""
        self._future.add_done_callback(lambda _: callback(self))

    def __str__(self) -> str:
        if not self._future.done():
            return "CompletableFuture[Not completed]"
        failed = self._future.cancelled() or self._future.exception() is not None
        return f"CompletableFuture[Completed {'exceptionally' if failed else 'normally'}]"
