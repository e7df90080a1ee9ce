"""The port that a REST server listens at."""

from __future__ import annotations

import socket
from collections.abc import Sequence

__all__ = ["listen"]


class _BoundedSocket(socket.socket):
    """Takes only so many connections at a time; those beyond are closed at once.

    A server knows of a client only when its TLS handshake is done. Those who connect and say nothing must not use up
    the files that a process may have open: its jobs need them.
    """

    def __init__(self, listening: socket.socket, most: int) -> None:
        super().__init__(fileno=listening.detach())
        self._most = most
        self._taken: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, object]:
        connection, address = super().accept()
        if len(self._taken) >= self._most:
            self._taken = [one for one in self._taken if one.fileno() >= 0]
        if len(self._taken) >= self._most:
            connection.close()
            raise BlockingIOError  # as if nobody had come
        self._taken.append(connection)
        return connection, address


def listen(host: str, ports: Sequence[int], most: int) -> socket.socket:
    """Listen at the first of the ports that is free, for ``most`` connections at a time. Raises OSError if none is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    refused: OSError | None = None
    for port in ports:
        try:
            listening = socket.create_server((host, port), family=family, backlog=most)
        except OSError as error:
            refused = error
        else:
            return _BoundedSocket(listening, most)
    raise OSError(f"no port of {ports[0]}-{ports[-1]} on {host} can be listened on: {refused}")
