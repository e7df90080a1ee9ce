"""The listening socket of a REST server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

__all__ = ["listen"]

#: How long a client may take for its TLS handshake.
HANDSHAKE_SECONDS: Final = 5.0


class _BoundedSocket(socket.socket):
    """A socket that limits the number of connections at a time. Must be used in an event loop.

    A server sees a client only after its TLS handshake. Clients that connect and send nothing must not use up the file
    descriptors of the process, which its jobs need, nor keep out other clients. So a connection beyond the limit
    replaces the one that has waited longest for its handshake. If there is none, the new connection is closed
    immediately.
    """

    def __init__(self, listening: socket.socket, most: int, served: Callable[[], Collection[int]]) -> None:
        super().__init__(fileno=listening.detach())
        self._most = most
        self._served = served
        self._taken: list[socket.socket] = []
        #: Replaced connections that the event loop has not closed yet.
        self._ending: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, object]:
        self._ending = _open(self._ending)
        if len(self._ending) > self._most // 4:
            raise BlockingIOError  # new connections wait until these are closed
        connection, address = super().accept()
        if len(self._taken) >= self._most:
            self._taken = _open(self._taken)
        if len(self._taken) >= self._most and not self._make_room():
            connection.close()
            raise BlockingIOError  # as if there were no connection
        self._taken.append(connection)
        asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._look, connection)
        return connection, address

    def _make_room(self) -> bool:
        served = self._served()
        oldest = next((one for one in self._taken if one.fileno() not in served), None)
        if oldest is None:
            return False
        self._taken.remove(oldest)
        self._ending.append(oldest)
        _end(oldest)
        return True

    def _look(self, connection: socket.socket) -> None:
        if connection.fileno() not in self._served():
            _end(connection)


def _open(connections: list[socket.socket]) -> list[socket.socket]:
    return [one for one in connections if one.fileno() >= 0]


def _end(connection: socket.socket) -> None:
    """Shut down a connection, so that the event loop, which owns it, detects the disconnect and closes it."""
    with suppress(OSError):  # the client has already disconnected
        connection.shutdown(socket.SHUT_RDWR)


def listen(host: str, ports: Sequence[int], most: int, served: Callable[[], Collection[int]]) -> socket.socket:
    """Listen on the first free port, for ``most`` connections at a time. Raises OSError if no port is free.

    ``served`` returns the file descriptors of the connections whose TLS handshake, if any, is complete.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    refused: OSError | None = None
    for port in ports:
        try:
            listening = socket.create_server((host, port), family=family, backlog=most)
        except OSError as error:
            refused = error
        else:
            return _BoundedSocket(listening, most, served)
    raise OSError(f"cannot listen on any port of {ports[0]}-{ports[-1]} on {host}: {refused}")
