"""The proxy: forwards the requests of clients to the state server that owns the key group."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import (
    LARGEST_ANSWER,
    FrameSplitter,
    failure,
    frame,
    hello,
    payload,
    raised,
    share_of,
    success,
    unpack_hashes,
)

__all__ = ["StateProxy"]

_CONNECT_SECONDS: Final = 5.0
_RECEIVE: Final = 256 << 10


class _Upstream:
    """A connection to a state server, opened when it is needed, and reopened when it was lost."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        # configuration
        self._host, self._port, self._token = host, port, token
        # transient
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Any, ...]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def ask(self, what: str, rest: tuple[Any, ...]) -> tuple[Any, ...]:
        """Forward a request and return the response without its number. Raises :class:`StateUnavailableError`."""
        number = next(self._numbers)
        try:
            writer = await self._connected()
            future = self._waiting[number] = asyncio.get_running_loop().create_future()
            writer.write(frame(number, what, *rest))
            await writer.drain()
            answer: tuple[Any, ...] = await future
        except (OSError, TimeoutError) as error:
            raise StateUnavailableError(
                f"the state server at {self._host}:{self._port} cannot be reached: {error!r}"
            ) from error
        else:
            return answer
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, writer = await asyncio.wait_for(
                    asyncio.open_connection(self._host, self._port), _CONNECT_SECONDS
                )
                writer.write(hello(self._token))
                self._writer = writer
                self._reading = asyncio.create_task(self._read(reader, writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameSplitter(LARGEST_ANSWER)
        reason: Exception = ConnectionError("the server closed the connection")
        try:
            while data := await reader.read(_RECEIVE):
                for body in frames.feed(data):
                    number, *values = payload(body)
                    waiting = self._waiting.get(number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(tuple(values))
        except (OSError, QueryableStateError) as error:
            reason = ConnectionError(str(error))
        finally:
            self._writer = None
            writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(reason)


class StateProxy:
    """Distributes requests to state servers, each to the one that owns the key group of the (first) key.

    It requests the number of key groups of a state once. Each server can serve all requests, and keeps in memory only
    what was requested from it. If a server cannot be reached, the request is sent to the next one.
    """

    def __init__(self, servers: Sequence[tuple[str, int]], token: str | None) -> None:
        # configuration
        self._servers = [_Upstream(host, port, token) for host, port in servers]
        # transient
        self._groups: dict[tuple[str, str], int] = {}

    def handle(self, number: int, what: str, rest: tuple[Any, ...]) -> Awaitable[bytes]:
        """Return the response to a request: see :mod:`tidemill.ops.queryable.wire`."""
        return self._handle(number, what, rest)

    async def close(self) -> None:
        """Close the connections to the servers."""
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _handle(self, number: int, what: str, rest: tuple[Any, ...]) -> bytes:
        try:
            values = await self._ask(await self._owner(what, rest), what, rest)
        except QueryableStateError as error:
            return failure(number, error)
        except (TypeError, ValueError) as error:
            return failure(number, QueryableStateError(f"a {what!r} request is malformed: {error}"))
        if values[0] != "ok":
            return frame(number, *values)
        return success(number, *values[1:-1], len(self._servers)) if what == "locate" else success(number, *values[1:])

    async def _ask(self, owner: int, what: str, rest: tuple[Any, ...]) -> tuple[Any, ...]:
        """Send a request to a server, or to the next one that can be reached."""
        lost: StateUnavailableError | None = None
        for server in (*self._servers[owner:], *self._servers[:owner]):
            try:
                return await server.ask(what, rest)
            except StateUnavailableError as error:
                lost = lost or error
        raise lost or StateUnavailableError("there are no state servers")

    async def _owner(self, what: str, rest: tuple[Any, ...]) -> int:
        """Return the number of the server for a request."""
        if what == "get":
            job, name, _, hashes, *_ = rest
            hashed, *_ = unpack_hashes(hashes)
        elif what == "schema":
            _, job, name, hashed = rest
        else:
            return 0
        groups = self._groups.get((job, name))
        if groups is None:
            located = await self._ask(0, "locate", (job, name))
            if (error := raised((0, *located))) is not None:
                raise error
            groups = self._groups[job, name] = int(located[4])
        return share_of(int(hashed), groups, len(self._servers))
