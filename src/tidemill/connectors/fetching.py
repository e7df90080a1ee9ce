"""A thread of the driver that fetches the messages of one partition ahead of the epochs, into a limited buffer."""

from __future__ import annotations

import abc
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from tidemill.errors import ConnectorError

__all__ = ["Fetched", "Fetcher"]

#: While more is buffered, nothing is fetched: some seconds of reading, of each partition.
_MOST_BYTES: Final = 8 << 20
_MOST_MESSAGES: Final = 20_000


class Fetched(Protocol):
    """A message in the buffer."""

    @property
    def data(self) -> bytes:
        """Its body."""


Message = TypeVar("Message", bound=Fetched)


class Fetcher(abc.ABC, Generic[Message]):
    """Fetches from :meth:`start` on. All fetchers of an enumerator share one lock, ``changed``, for their buffers."""

    def __init__(self, name: str, shown: str, changed: threading.Condition) -> None:
        """``name`` is that of the thread, ``shown`` describes the partition in messages."""
        self._changed = changed
        self._shown = shown
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._ended = False
        self._closed = False
        self._error: ConnectorError | None = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    # The caller of these holds the lock.

    def waiting(self) -> int:
        """Return the number of messages that can be taken. Raises the error that has ended the thread."""
        if self._error is not None and not self._messages:
            raise self._error
        return len(self._messages)

    @property
    def exhausted(self) -> bool:
        """Whether the partition has ended, and all of its messages have been taken."""
        return self._ended and not self._messages

    def take(self, most: int) -> list[Message]:
        """Remove and return up to ``most`` messages."""
        taken = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
        if taken:
            self._bytes -= sum(len(message.data) for message in taken)
            self._changed.notify_all()
        return taken

    def stop(self) -> None:
        """Request the end of the thread."""
        self._closed = True
        self._changed.notify_all()

    # The caller of this does not hold it.

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(seconds)

    # --------------------------------------------------------------------------------------- in the thread

    @abc.abstractmethod
    def fetch(self) -> None:
        """Fetch until the partition has ended, or :attr:`closed`. Raises :class:`ConnectorError`."""

    @property
    def closed(self) -> bool:
        """Whether the thread must end."""
        return self._closed

    def keep(self, messages: Sequence[Message], *, ended: bool = False) -> None:
        """Add messages to the buffer."""
        with self._changed:
            self._messages.extend(messages)
            self._bytes += sum(len(message.data) for message in messages)
            self._ended = ended
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait, and then until there is room for more."""
        with self._changed:
            if seconds > 0:
                self._changed.wait_for(lambda: self._closed, seconds)
            self._changed.wait_for(
                lambda: self._closed or (self._bytes < _MOST_BYTES and len(self._messages) < _MOST_MESSAGES)
            )

    def _main(self) -> None:
        try:
            self.fetch()
        except ConnectorError as error:
            self._fail(error)
        except Exception as error:
            self._fail(ConnectorError(f"{self._shown} cannot be read: {type(error).__name__}: {error}"))

    def _fail(self, error: ConnectorError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()
