"""Listening for queries: connections, their limits, and the way from a request to its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from tidemill.errors import ConfigurationError
from tidemill.ops.access import is_loopback, same_secret
from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import LARGEST_REQUEST, FrameSplitter, failure, frame, is_hello, payload

__all__ = ["Access", "Handler", "Listening", "listen"]

log = logging.getLogger(__name__)

#: What answers a request, at once or later: gets its number, what it asks for, and the rest of it.
Handler = Callable[[int, str, tuple[Any, ...]], bytes | Awaitable[bytes]]

#: Requests of one connection that may wait for an answer; its next ones are not read meanwhile.
_MOST_WAITING: Final = 256
_MOST_CONNECTIONS: Final = 256
#: A client that has not said who it is by then is sent away.
_HELLO_SECONDS: Final = 10.0
#: For an answer.
_SECONDS: Final = 30.0


class Access:
    """The rule for one address to listen on."""

    def __init__(self, host: str, token: str | None) -> None:
        """Raises :class:`ConfigurationError` for an address that other machines reach, without a token."""
        if not is_loopback(host) and not token:
            raise ConfigurationError(
                f"state at {host} could be queried from other machines: set queryable-state.token, which clients must "
                "then send, or listen on 127.0.0.1"
            )
        self.host = host
        self._token = token

    def admits(self, token: str) -> bool:
        """Whether a client with this token may query."""
        return self._token is None or same_secret(token, self._token)


class _Connection(asyncio.Protocol):
    def __init__(self, handler: Handler, access: Access, connections: set[_Connection]) -> None:
        # configuration
        self._handler = handler
        self._access = access
        self._connections = connections
        # transient
        self._frames = FrameSplitter(LARGEST_REQUEST)
        self._admitted = False
        self._waiting = 0
        self._clogged = False
        self._tasks: set[asyncio.Future[None]] = set()
        self._transport: asyncio.Transport
        self._timeout: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timeout = asyncio.get_running_loop().call_later(_HELLO_SECONDS, self._expire)
        if len(self._connections) >= _MOST_CONNECTIONS:
            self._transport.abort()
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._timeout.cancel()
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        answers: list[bytes] = []
        try:
            for body in self._frames.feed(data):
                answer = self._answer(payload(body))
                if answer is not None:
                    answers.append(answer)
        except (QueryableStateError, ValueError) as error:
            # It does not speak our language: nothing more can be made of it.
            log.debug("a connection is closed: %s", error)
            self._transport.close()
            return
        if answers:
            self._transport.write(b"".join(answers))

    def pause_writing(self) -> None:
        self._clogged = True
        self._let_read()

    def resume_writing(self) -> None:
        self._clogged = False
        self._let_read()

    def close(self) -> None:
        self._transport.abort()

    def _answer(self, values: tuple[Any, ...]) -> bytes | None:
        if not self._admitted:
            return self._greet(values)
        number, what, rest = _request(values)
        try:
            answer = self._handler(number, what, rest)
        except Exception as error:  # the client is told: one whose connection is closed would ask the same again
            return _unexpected(number, error)
        if isinstance(answer, bytes):
            return answer
        self._waiting += 1
        self._let_read()
        task = asyncio.ensure_future(self._later(number, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None

    async def _later(self, number: int, answer: Awaitable[bytes]) -> None:
        try:
            found = await asyncio.wait_for(answer, _SECONDS)
        except TimeoutError:
            found = failure(number, StateUnavailableError(f"the query took longer than {_SECONDS:.0f} seconds"))
        except Exception as error:
            found = _unexpected(number, error)
        self._waiting -= 1
        self._let_read()
        self._transport.write(found)

    def _greet(self, values: tuple[Any, ...]) -> bytes:
        if not is_hello(values):
            raise QueryableStateError("the client speaks another protocol, or another version of it")
        self._timeout.cancel()
        self._admitted = self._access.admits(values[2])
        if self._admitted:
            return frame(0, "ok")
        log.warning("a client without the right token was sent away: %s", self._transport.get_extra_info("peername"))
        self._transport.write(failure(0, QueryableStateError("a token is needed, and this is not the right one")))
        raise QueryableStateError("not the right token")

    def _let_read(self) -> None:
        """Read on as long as answers do not pile up."""
        if self._clogged or self._waiting >= _MOST_WAITING:
            self._transport.pause_reading()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def _expire(self) -> None:
        self._transport.abort()


def _unexpected(number: int, error: Exception) -> bytes:
    """The answer to a query that failed for no reason that a client could do anything about: the log has the reason."""
    log.error("a query failed", exc_info=error)
    return failure(number, QueryableStateError("the query failed; the server's log says why"))


def _request(values: tuple[Any, ...]) -> tuple[int, str, tuple[Any, ...]]:
    if len(values) < 2 or type(values[0]) is not int or type(values[1]) is not str:
        raise QueryableStateError("what came over the network is no request")
    return values[0], values[1], values[2:]


class Listening:
    """An open port."""

    def __init__(self, server: asyncio.Server, connections: set[_Connection]) -> None:
        self._server = server
        self._connections = connections
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no longer, and end all connections."""
        self._server.close()
        for connection in list(self._connections):
            connection.close()
        await self._server.wait_closed()


async def listen(handler: Handler, access: Access, ports: Sequence[int]) -> Listening:
    """Answer queries at the first of these ports that is free. Raises :class:`ConfigurationError` if none is."""
    refused: OSError | None = None
    for port in ports:
        connections: set[_Connection] = set()
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                lambda: _Connection(handler, access, connections),  # noqa: B023 - used within this turn
                access.host,
                port,
            )
        except OSError as error:
            refused = error
            continue
        if not is_loopback(access.host):
            log.warning("state can be queried at %s without TLS: tokens and values can be read on the way", access.host)
        return Listening(server, connections)
    raise ConfigurationError(f"none of the ports {list(ports)} on {access.host} can be listened on: {refused}")
