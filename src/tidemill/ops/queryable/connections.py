"""Listens for queries: connections, their limits, and the handling of requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from tidemill.errors import ConfigurationError
from tidemill.ops.access import is_loopback, same_secret
from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import LARGEST_REQUEST, FrameSplitter, failure, frame, is_hello, payload

__all__ = ["Access", "Handler", "Listening", "serve_queries"]

log = logging.getLogger(__name__)

#: Handles a request, immediately or asynchronously. Arguments: the number, the kind and the content of the request.
Handler = Callable[[int, str, tuple[Any, ...]], bytes | Awaitable[bytes]]

#: Maximum number of requests of one connection in progress. Further ones are not read until some have completed.
_MOST_WAITING: Final = 256
_MOST_CONNECTIONS: Final = 256
#: A client that has not sent its first frame by then is disconnected.
_HELLO_SECONDS: Final = 10.0
#: Timeout of a request.
_SECONDS: Final = 30.0


class Access:
    """The access rule for an address to listen on."""

    def __init__(self, host: str, token: str | None) -> None:
        """Raises :class:`ConfigurationError` for an address that other machines can reach, if there is no token."""
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
            # The client does not use this protocol, so the rest of the data cannot be interpreted either.
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
        except Exception as error:  # reported to the client, which would retry if the connection were closed
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
        except asyncio.TimeoutError:
            found = failure(number, StateUnavailableError(f"the query took longer than {_SECONDS:.0f} seconds"))
        except Exception as error:
            found = _unexpected(number, error)
        self._waiting -= 1
        self._let_read()
        self._transport.write(found)

    def _greet(self, values: tuple[Any, ...]) -> bytes:
        if not is_hello(values):
            raise QueryableStateError("the client uses another protocol, or another version of it")
        self._timeout.cancel()
        self._admitted = self._access.admits(values[2])
        if self._admitted:
            return frame(0, "ok")
        log.warning("a client without a valid token was rejected: %s", self._transport.get_extra_info("peername"))
        self._transport.write(failure(0, QueryableStateError("a valid token is required")))
        raise QueryableStateError("invalid token")

    def _let_read(self) -> None:
        """Continue reading unless responses accumulate."""
        if self._clogged or self._waiting >= _MOST_WAITING:
            self._transport.pause_reading()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def _expire(self) -> None:
        self._transport.abort()


def _unexpected(number: int, error: Exception) -> bytes:
    """Return the response to a query that failed with an internal error. The error is logged, but not sent."""
    log.error("a query failed", exc_info=error)
    return failure(number, QueryableStateError("the query failed; see the log of the server"))


def _request(values: tuple[Any, ...]) -> tuple[int, str, tuple[Any, ...]]:
    if len(values) < 2 or type(values[0]) is not int or type(values[1]) is not str:
        raise QueryableStateError("received an invalid request")
    return values[0], values[1], values[2:]


class Listening:
    """An open port."""

    def __init__(self, server: asyncio.Server, connections: set[_Connection]) -> None:
        self._server = server
        self._connections = connections
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        self._server.close()
        for connection in list(self._connections):
            connection.close()
        await self._server.wait_closed()


async def serve_queries(handler: Handler, access: Access, ports: Sequence[int]) -> Listening:
    """Serve queries on the first free port. Raises :class:`ConfigurationError` if no port is free."""
    refused: OSError | None = None
    for port in ports:
        connections: set[_Connection] = set()
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                lambda: _Connection(handler, access, connections),  # noqa: B023 - used within this iteration
                access.host,
                port,
            )
        except OSError as error:
            refused = error
            continue
        if not is_loopback(access.host):
            log.warning("state can be queried at %s without TLS: tokens and values are not encrypted", access.host)
        return Listening(server, connections)
    raise ConfigurationError(f"cannot listen on any of the ports {list(ports)} on {access.host}: {refused}")
