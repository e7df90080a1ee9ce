"""The result of an asynchronous computation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from tidemill.errors import TidemillError, without_engine_frames

__all__ = ["CompletableFuture"]

T = TypeVar("T")
U = TypeVar("U")


class CompletableFuture(Generic[T]):
    """The result of an asynchronous computation. It can be completed only once: later attempts have no effect.

    >>> future = CompletableFuture.completed(3)
    >>> future.done(), future.result()
    (True, 3)
    """

    def __init__(self, future: Future[T] | None = None) -> None:
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: U) -> CompletableFuture[U]:
        """A future that is already completed with ``value``."""
        future: CompletableFuture[U] = CompletableFuture()
        future._future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[U]:
        """A future that has already failed with ``error``."""
        future: CompletableFuture[U] = CompletableFuture()
        future._future.set_exception(error)
        return future

    def cancel(self) -> bool:
        """Cancels the computation unless it has started or is done. Returns whether it is now cancelled."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether the computation has completed, failed or been cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits at most ``timeout`` seconds for the value. Raises the error if the computation failed."""
        __tracebackhide__ = True
        try:
            return self._future.result(timeout)
        except TidemillError as error:
            raise without_engine_frames(error)  # noqa: B904 - it is the same error

    def exception(self) -> BaseException | None:
        """The error that the computation failed with, or None if it has not failed so far. Does not wait."""
        if not self._future.done():
            return None
        if self._future.cancelled():
            return CancelledError()
        return self._future.exception()

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Calls ``callback`` with this future when it is done, or immediately if it already is."""
        self._future.add_done_callback(lambda _: callback(self))

    def __str__(self) -> str:
        if not self._future.done():
            return "CompletableFuture[Not completed]"
        failed = self._future.cancelled() or self._future.exception() is not None
        return f"CompletableFuture[Completed {'exceptionally' if failed else 'normally'}]"
