"""The connection of a client: sends requests, receives responses, and reconnects and resends if the connection is lost.

One thread sends and receives. Callers only enqueue requests for it. So requests that arrive while the thread is busy
are sent in one write. Lookups can also be combined in one request (:meth:`ClientConnection.ask_for`), because the
content of a request is determined only when it is sent. The higher the request rate, the more of them share the cost of
a message.
"""

from __future__ import annotations

import itertools
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tidemill.errors import TidemillError
from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import LARGEST_ANSWER, FrameSplitter, frame, hello, payload, raised

__all__ = ["ClientConnection", "settle"]

log = logging.getLogger(__name__)

_RECEIVE: Final = 256 << 10
#: How often deadlines are checked.
_TICK: Final = 0.05
#: Pause between attempts to connect or to resend a request.
_PAUSE: Final = 0.1
#: Maximum number of requests in flight. A server stops reading when it has 256.
_MOST_ON_THEIR_WAY: Final = 64


@dataclass(eq=False)
class _Waiting:
    number: int
    what: str
    #: Returns the content of the request, called when it is sent.
    rest: Callable[[], tuple[Any, ...]]
    future: Future[tuple[Any, ...]]
    deadline: float
    #: When it may be sent or resent.
    due: float = 0.0
    #: The frame that was sent.
    request: bytes | None = None
    #: Why there is no response yet.
    reason: str = "the server did not respond"


class ClientConnection:
    """Sends requests to one address. Thread-safe; its own thread sends, receives, reconnects and resends.

    Requests are idempotent. So a request is resent until there is a response or ``timeout`` seconds have passed, also
    over a new connection, and if the server responded that the state is currently unavailable.
    """

    def __init__(self, host: str, port: int, token: str | None, timeout: float) -> None:
        # configuration
        self._address = (host, port)
        self._token = token
        self._timeout = timeout
        # transient, all guarded by the lock, except for what only the thread uses
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._unsent: deque[_Waiting] = deque()
        self._is_awake = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._waking: tuple[socket.socket, socket.socket] | None = None

    def ask(self, what: str, *rest: Any) -> Future[tuple[Any, ...]]:
        """Send a request. The future returns the response, or raises :class:`QueryableStateError`."""
        return self.ask_for(what, lambda: rest)

    def ask_for(self, what: str, rest: Callable[[], tuple[Any, ...]]) -> Future[tuple[Any, ...]]:
        """Like :meth:`ask`; ``rest`` is called by the connection's thread when the request is first sent."""
        waiting = _Waiting(next(self._numbers), what, rest, Future(), time.monotonic() + self._timeout)
        with self._lock:
            if self._closed:
                waiting.future.set_exception(QueryableStateError("the client is closed"))
                return waiting.future
            self._waiting[waiting.number] = waiting
            self._unsent.append(waiting)
            if self._thread is None:
                self._start()
            wake, self._is_awake = not self._is_awake, True
        if wake:
            self._wake()
        return waiting.future

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is the connection's thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Close the connection. Requests without a response fail."""
        with self._lock:
            was_closed, self._closed = self._closed, True
            thread = self._thread
        if thread is None or was_closed:
            return
        self._wake()
        if not self.is_this_thread:
            thread.join()

    def _start(self) -> None:
        self._waking = socket.socketpair()
        self._waking[0].setblocking(False)
        self._thread = threading.Thread(
            target=self._run, args=(self._waking[0],), name="tidemill-query-client", daemon=True
        )
        self._thread.start()

    def _wake(self) -> None:
        if self._waking is not None:
            try:
                self._waking[1].send(b"w")
            except OSError as error:
                log.debug("the thread of the connection has ended: %s", error)

    def _run(self, woken: socket.socket) -> None:
        try:
            while self._await_requests(woken):
                self._connect_and_exchange(woken)
        finally:
            self._fail(QueryableStateError("the client is closed"))
            for end in self._waking or ():
                end.close()

    def _await_requests(self, woken: socket.socket) -> bool:
        """Wait until there is a request to send. Returns False if the client is closed."""
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            while not self._closed:
                with self._lock:
                    if self._waiting:
                        return True
                    self._is_awake = False
                selector.select()
                _empty(woken)
        return False

    def _connect_and_exchange(self, woken: socket.socket) -> None:
        try:
            current = self._connect()
        except OSError as error:
            self._expire(f"{self._address[0]}:{self._address[1]} cannot be reached: {error}")
            time.sleep(_PAUSE)
        except QueryableStateError as error:
            self._fail(error)
        else:
            with current, selectors.DefaultSelector() as selector:
                selector.register(current, selectors.EVENT_READ)
                selector.register(woken, selectors.EVENT_READ)
                try:
                    self._exchange(current, woken, selector)
                except (OSError, QueryableStateError) as error:
                    log.debug("the connection to %s was lost: %s", self._address, error)
                    # The server may have closed the connection because of a request that is resent again and again.
                    self._expire(f"the connection was lost: {error}")
                    time.sleep(_PAUSE)

    def _connect(self) -> socket.socket:
        made = socket.create_connection(self._address, timeout=self._timeout)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.sendall(hello(self._token))
            frames = FrameSplitter(LARGEST_ANSWER)
            found: list[bytes] = []
            while not found:
                data = made.recv(_RECEIVE)
                if not data:
                    raise ConnectionError("the server closed the connection")
                found = list(frames.feed(data))
            if (error := raised(payload(found[0]))) is not None:
                raise error
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        with self._lock:  # resend everything over the new connection
            self._unsent = deque(self._waiting.values())
        return made

    def _exchange(self, current: socket.socket, woken: socket.socket, selector: selectors.BaseSelector) -> None:
        """Send and receive until the connection is lost or the client is closed."""
        frames, outgoing, looked = FrameSplitter(LARGEST_ANSWER), memoryview(b""), time.monotonic()
        sent: set[int] = set()
        later: list[_Waiting] = []
        while not self._closed:
            if not outgoing:
                outgoing = memoryview(self._next_requests(sent, later))
            if outgoing:
                with suppress(BlockingIOError):  # the server stops reading until its responses are read
                    outgoing = outgoing[current.send(outgoing) :]
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if outgoing else 0)
                if selector.get_key(current).events != events:
                    selector.modify(current, events)
            with self._lock:
                idle = not self._waiting
                self._is_awake = bool(self._unsent)  # requests since the last check did not wake the thread
                hurry = self._is_awake and not outgoing and len(sent) < _MOST_ON_THEIR_WAY
            ready = {key.fileobj for key, _ in selector.select(0 if hurry else None if idle else _TICK)}
            if woken in ready:
                _empty(woken)
            with self._lock:
                self._is_awake = True
            if current in ready:
                self._receive(current, frames, sent, later)
            if time.monotonic() - looked > _TICK:
                looked = time.monotonic()
                self._expire()

    def _receive(self, current: socket.socket, frames: FrameSplitter, sent: set[int], later: list[_Waiting]) -> None:
        try:
            data = current.recv(_RECEIVE)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("the server closed the connection")
        for body in frames.feed(data):
            self._answered(payload(body), sent, later)

    def _next_requests(self, sent: set[int], later: list[_Waiting]) -> bytes:
        """Return the frames to send next, joined."""
        if later:
            now = time.monotonic()
            due = [waiting for waiting in later if waiting.due <= now]
            later[:] = [waiting for waiting in later if waiting.due > now]
            with self._lock:
                self._unsent.extendleft(reversed(due))
        requests = []
        while (waiting := self._next_unsent(sent)) is not None:
            try:
                if waiting.request is None:
                    waiting.request = frame(waiting.number, waiting.what, *waiting.rest())
            except TidemillError as error:
                with self._lock:
                    self._waiting.pop(waiting.number, None)
                settle(waiting.future, error=error)
                continue
            requests.append(waiting.request)
            sent.add(waiting.number)
        return b"".join(requests)

    def _next_unsent(self, sent: set[int]) -> _Waiting | None:
        with self._lock:
            if len(sent) >= _MOST_ON_THEIR_WAY:
                sent.intersection_update(self._waiting)  # the others have expired
            while self._unsent and len(sent) < _MOST_ON_THEIR_WAY:
                waiting = self._unsent.popleft()
                if waiting.number in self._waiting:
                    return waiting
        return None

    def _answered(self, values: tuple[Any, ...], sent: set[int], later: list[_Waiting]) -> None:
        number, error = values[0], raised(values)
        if not isinstance(number, int):
            raise QueryableStateError("received an invalid response")
        sent.discard(number)
        with self._lock:
            waiting = self._waiting.get(number)
            if waiting is None:
                return
            if isinstance(error, StateUnavailableError) and time.monotonic() + _PAUSE < waiting.deadline:
                waiting.due, waiting.reason = time.monotonic() + _PAUSE, str(error)
                later.append(waiting)
                return
            del self._waiting[number]
        if error is None:
            settle(waiting.future, values[2:])
        else:
            settle(waiting.future, error=error)

    def _expire(self, reason: str | None = None) -> None:
        """Fail the requests whose deadline has passed, and set the reason why the others are still waiting."""
        now = time.monotonic()
        with self._lock:
            for waiting in self._waiting.values() if reason else ():
                waiting.reason = reason or waiting.reason
            late = [number for number, waiting in self._waiting.items() if waiting.deadline <= now]
            ended = [self._waiting.pop(number) for number in late]
        for waiting in ended:
            text = f"no response within {self._timeout:.0f} seconds: {waiting.reason}"
            settle(waiting.future, error=StateUnavailableError(text))

    def _fail(self, error: QueryableStateError) -> None:
        with self._lock:
            ended, self._waiting = list(self._waiting.values()), {}
            self._unsent.clear()
        for waiting in ended:
            settle(waiting.future, error=error)


def settle(future: Future[Any], result: Any = None, *, error: BaseException | None = None) -> None:
    """Complete a future with its result or error, unless it was cancelled."""
    try:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    except InvalidStateError:
        log.debug("received a response to a cancelled request")


def _empty(woken: socket.socket) -> None:
    with suppress(BlockingIOError):
        while woken.recv(4096):
            pass
