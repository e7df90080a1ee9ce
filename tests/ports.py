"""Ports of loopback for servers that must be given one: nobody else takes it before they listen, or between two starts.

A port that is found free, and closed again, may be anybody's a moment later.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_HOST: Final = "127.0.0.1"
#: Below those that systems choose from for who does not mind, and above those of well-known services.
_CHOICE: Final = range(20_000, 32_000)
#: Locked files that say to the other processes of a test run which ports are taken; they are locked until we end.
_taken: list[IO[str]] = []


def own_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that no other test is given as long as this process lives."""
    folder = Path(tempfile.gettempdir(), f"tidemill-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    found: list[int] = []
    for port in random.sample(_CHOICE, len(_CHOICE)):
        if len(found) == count:
            break
        if _take(folder / str(port)) and _is_free(port):
            found.append(port)
    return found


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port at which connections are refused as long as the block runs: someone has it, and does not listen."""
    with socket.socket() as holder:
        holder.bind((_HOST, 0))
        yield holder.getsockname()[1]


def _take(path: Path) -> bool:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return False
    _taken.append(file)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a closed connection is no obstacle
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
