"""The port that a REST server listens at."""

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
    """Takes only so many connections at a time. Is used in an event loop.

    A server knows of a client only when its TLS handshake is done. Those who connect and say nothing must not use up
    the files that a process may have open, since its jobs need them; nor keep out others. So whoever comes beyond takes
    the place of the connection that has waited longest for its handshake; if there is none, it is closed at once.
    """

    def __init__(self, listening: socket.socket, most: int, served: Callable[[], Collection[int]]) -> None:
        super().__init__(fileno=listening.detach())
        self._most = most
        self._served = served
        self._taken: list[socket.socket] = []
        #: Those that made room, until the event loop has closed them.
        self._ending: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, object]:
        self._ending = _open(self._ending)
        if len(self._ending) > self._most // 4:
            raise BlockingIOError  # who comes can wait until they are closed
        connection, address = super().accept()
        if len(self._taken) >= self._most:
            self._taken = _open(self._taken)
        if len(self._taken) >= self._most and not self._make_room():
            connection.close()
            raise BlockingIOError  # as if nobody had come
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
    """Let the event loop, whose connection it is, find that the client is gone."""
    with suppress(OSError):  # it is
        connection.shutdown(socket.SHUT_RDWR)


def listen(host: str, ports: Sequence[int], most: int, served: Callable[[], Collection[int]]) -> socket.socket:
    """Listen at the first of the ports that is free, for ``most`` connections at a time. Raises OSError if none is.

    ``served`` tells the file numbers of the connections whose TLS handshake, if there is any, is done.
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
    raise OSError(f"no port of {ports[0]}-{ports[-1]} on {host} can be listened on: {refused}")
