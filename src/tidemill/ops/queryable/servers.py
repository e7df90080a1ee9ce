"""Records of the queryable state servers on this machine, so that other processes of the user can find and stop them.

A server holds a lock on its record while it runs. The lock is released however the server ends.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tidemill.errors import ConfigurationError
from tidemill.ops.drivers.records import records_directory
from tidemill.runtime.driver import queryable_service

__all__ = ["QueryServer", "address_of", "recorded", "servers", "stop"]

log = logging.getLogger(__name__)

_PREFIX: Final = "queryable-"
#: How long a server may take to end.
_END_SECONDS: Final = 10.0


@dataclass(frozen=True)
class QueryServer:
    """The server of a job; ``keeps_running`` tells whether it outlives the driver that started it."""

    job: str
    host: str
    port: int
    pid: int
    directory: str
    keeps_running: bool


@contextmanager
def recorded(server: QueryServer) -> Iterator[None]:
    """Keep a record of a server of this process while the block runs. Without one, it can only be found by address."""
    try:
        path = records_directory() / f"{_PREFIX}{server.pid}.json"
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    except (ConfigurationError, OSError) as error:
        log.warning("other processes cannot find this server: %s", error)
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, json.dumps(asdict(server)).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def servers() -> list[QueryServer]:
    """The servers of this user that run on this machine, by job. Records of servers that were killed are deleted."""
    found = [server for path in records_directory().glob(f"{_PREFIX}*.json") if (server := _read(path)) is not None]
    return sorted(found, key=lambda server: (server.job, server.port))


def address_of(job_id: str, timeout: float = 30.0) -> tuple[str, int]:
    """The host and port of the queryable state server of a job, which a process of this user runs on this machine.

    For a job of this process, this waits until the server listens. Raises :class:`ConfigurationError` if the job has no
    server, or it could not be started.
    """
    try:
        return queryable_service.address_of(job_id, timeout)
    except ConfigurationError:
        for server in servers():
            if server.job == job_id:
                return server.host, server.port
        raise


def stop(server: QueryServer) -> bool:
    """End a server, and wait until it has ended. Returns False if it does not end."""
    os.kill(server.pid, signal.SIGTERM)
    until = time.monotonic() + _END_SECONDS
    while any(one.pid == server.pid for one in servers()):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _read(path: Path) -> QueryServer | None:
    """The server of a record; None if it has ended."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return QueryServer(**json.load(file))
            path.unlink(missing_ok=True)  # nobody holds it
    except (OSError, ValueError, TypeError):
        return None  # it was deleted, or is about to be written
    return None
