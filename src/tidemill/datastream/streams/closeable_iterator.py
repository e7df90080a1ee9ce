"""An iterator over the results of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from tidemill.python_versions import Self

__all__ = ["CloseableIterator"]


class CloseableIterator(Iterator[Any]):
    """Iterates over results while the job runs. Closing it cancels the job if it is still running.

    >>> with CloseableIterator(iter([1, 2])) as results:
    ...     list(results)
    [1, 2]
    """

    def __init__(self, results: Iterator[Any], on_close: Callable[[], None] | None = None) -> None:
        self._results = results
        self._on_close = on_close
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._closed:
            raise StopIteration
        return next(self._results)

    def next(self) -> Any:
        """The next result. Raises ``StopIteration`` after the last."""
        return self.__next__()

    def close(self) -> None:
        """Stop the iteration and the job. Has no effect if called again."""
        if self._closed:
            return
        self._closed = True
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
