"""A client's connection: requests out, answers in, and all of it again when the connection is lost."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import LARGEST_ANSWER, Frames, frame, hello, payload, raised

__all__ = ["ClientConnection"]

log = logging.getLogger(__name__)

_RECEIVE: Final = 256 << 10
#: How often deadlines are looked at.
_TICK: Final = 0.05
#: Between attempts to connect, or to ask again.
_PAUSE: Final = 0.1
#: Requests on their way at once; who asks for more waits.
_MOST_WAITING: Final = 128


@dataclass
class _Waiting:
    request: bytes
    future: Future[tuple[Any, ...]]
    deadline: float
    #: When it may be sent (again).
    due: float = 0.0
    #: The connection it was sent over.
    sent_over: socket.socket | None = None
    #: Why it has not been answered yet.
    reason: str = "the server did not answer"


class ClientConnection:
    """Requests to one address. Safe for threads; its own thread reads, connects again and sends again.

    To ask twice does no harm, so a request is sent until it is answered or ``timeout`` seconds are over: also over a
    new connection, and when the server said that it cannot tell now.
    """

    def __init__(self, host: str, port: int, token: str | None, timeout: float) -> None:
        # configuration
        self._address = (host, port)
        self._token = token
        self._timeout = timeout
        # transient
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._wanted = threading.Event()
        self._window = threading.BoundedSemaphore(_MOST_WAITING)
        self._waiting: dict[int, _Waiting] = {}
        self._socket: socket.socket | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, what: str, *rest: Any) -> Future[tuple[Any, ...]]:
        """Send a request; the future has the answer, or raises :class:`QueryableStateError`."""
        number = next(self._numbers)
        future: Future[tuple[Any, ...]] = Future()
        waiting = _Waiting(frame(number, what, *rest), future, time.monotonic() + self._timeout)
        in_thread = threading.current_thread() is self._thread
        if not in_thread:  # which must not wait for itself
            self._window.acquire()
            future.add_done_callback(lambda _: self._window.release())
        with self._lock:
            if self._closed:
                future.set_exception(QueryableStateError("the client is closed"))
                return future
            self._waiting[number] = waiting
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tidemill-query-client", daemon=True)
                self._thread.start()
            current = self._socket
        self._wanted.set()
        if current is not None:
            self._send(current, waiting)
        return future

    def close(self) -> None:
        """End the connection; what is not answered yet fails."""
        with self._lock:
            self._closed = True
            current, thread = self._socket, self._thread
        self._wanted.set()
        if current is not None:
            with self._sending:
                _shut(current)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._fail(QueryableStateError("the client is closed"))

    def _run(self) -> None:
        while self._is_wanted():
            try:
                current = self._connect()
            except OSError as error:
                self._expire(f"{self._address[0]}:{self._address[1]} cannot be reached: {error}")
                time.sleep(_PAUSE)
            except QueryableStateError as error:
                self._fail(error)
            else:
                try:
                    self._receive(current)
                except (OSError, QueryableStateError) as error:
                    log.debug("the connection to %s was lost: %s", self._address, error)
                finally:
                    with self._lock:
                        self._socket = None
                    current.close()
            with self._lock:
                if not self._waiting and not self._closed:
                    self._wanted.clear()

    def _is_wanted(self) -> bool:
        """Wait until there is something to send; False if there will be nothing any more."""
        self._wanted.wait()
        return not self._closed

    def _connect(self) -> socket.socket:
        made = socket.create_connection(self._address, timeout=self._timeout)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.sendall(hello(self._token))
            frames = Frames(LARGEST_ANSWER)
            found: list[bytes] = []
            while not found:
                data = made.recv(_RECEIVE)
                if not data:
                    raise ConnectionError("the server closed the connection")
                found = list(frames.feed(data))
            if (error := raised(payload(found[0]))) is not None:
                raise error
            made.settimeout(_TICK)
        except BaseException:
            made.close()
            raise
        with self._lock:
            self._socket = made
            left = list(self._waiting.values())
        for waiting in left:
            self._send(made, waiting)
        return made

    def _send(self, over: socket.socket, waiting: _Waiting) -> None:
        with self._sending:
            if waiting.sent_over is over or waiting.due > time.monotonic() or waiting.future.done():
                return
            waiting.sent_over = over
            data = memoryview(waiting.request)
            try:
                while data:
                    try:
                        data = data[over.send(data) :]
                    except TimeoutError:  # the server reads no more until its answers are read
                        if self._closed or waiting.deadline < time.monotonic():
                            _shut(over)  # a part of a request is of no use, nor is what would come after it
                            return
            except OSError as error:  # who reads will notice, and it is sent again
                log.debug("a request could not be sent: %s", error)

    def _receive(self, current: socket.socket) -> None:
        frames = Frames(LARGEST_ANSWER)
        looked = time.monotonic()
        while not self._closed:
            try:
                data = current.recv(_RECEIVE)
            except TimeoutError:
                data = None
            if data == b"":
                raise ConnectionError("the server closed the connection")
            for body in frames.feed(data or b""):
                self._answered(payload(body))
            if time.monotonic() - looked > _TICK:
                looked = time.monotonic()
                self._expire()
                self._send_what_is_due(current)

    def _answered(self, values: tuple[Any, ...]) -> None:
        error = raised(values)
        with self._lock:
            waiting = self._waiting.get(values[0])
            if waiting is None:
                return
            if isinstance(error, StateUnavailableError) and time.monotonic() + _PAUSE < waiting.deadline:
                waiting.due, waiting.sent_over, waiting.reason = time.monotonic() + _PAUSE, None, str(error)
                return
            del self._waiting[values[0]]
        if error is None:
            waiting.future.set_result(values[2:])
        else:
            waiting.future.set_exception(error)

    def _send_what_is_due(self, current: socket.socket) -> None:
        with self._lock:
            left = [waiting for waiting in self._waiting.values() if waiting.sent_over is not current]
        for waiting in left:
            self._send(current, waiting)

    def _expire(self, reason: str | None = None) -> None:
        now = time.monotonic()
        with self._lock:
            late = [number for number, waiting in self._waiting.items() if waiting.deadline <= now]
            ended = [self._waiting.pop(number) for number in late]
        for waiting in ended:
            text = f"no answer within {self._timeout:.0f} seconds: {reason or waiting.reason}"
            waiting.future.set_exception(StateUnavailableError(text))

    def _fail(self, error: QueryableStateError) -> None:
        with self._lock:
            ended, self._waiting = list(self._waiting.values()), {}
        for waiting in ended:
            waiting.future.set_exception(error)


def _shut(current: socket.socket) -> None:
    try:
        current.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        log.debug("the connection had ended: %s", error)
