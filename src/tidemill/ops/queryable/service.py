"""The queryable state service of one job as a process: a proxy and its state servers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

from tidemill.checkpoint.storage.storages import storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.config import QueryableStateOptions
from tidemill.errors import CheckpointError, TidemillError
from tidemill.ops.access import ports_of, read_token
from tidemill.ops.queryable.committed import CommittedStates
from tidemill.ops.queryable.connections import Access, serve_queries
from tidemill.ops.queryable.proxy import StateProxy
from tidemill.ops.queryable.server import StateServer
from tidemill.ops.queryable.servers import QueryServer, recorded
from tidemill.state_processor.job_directory import JobDirectory

__all__ = ["Service", "serving"]

log = logging.getLogger(__name__)

_START_SECONDS = 60.0


@dataclass(frozen=True)
class Service:
    """The settings of a service; ``directory`` (a path or the URL of an object store) is that of the job to serve.

    ``is_server`` is set for a state server that is used by a proxy, ``is_new`` for a job that may not have committed
    anything yet. With ``stay``, the service continues when its parent process has ended.
    """

    directory: str
    job_id: str | None
    configuration: Configuration
    is_server: bool = False
    is_new: bool = False
    stay: bool = False

    def to_json(self) -> str:
        """Return one line for :meth:`from_json`. It is sent through a pipe, because it may contain secrets."""
        fields = {
            "directory": self.directory,
            "job": self.job_id,
            "configuration": self.configuration.to_dict(),
            "server": self.is_server,
            "new": self.is_new,
            "stay": self.stay,
        }
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Service:
        """The inverse of :meth:`to_json`."""
        fields = json.loads(text)
        configuration = Configuration.from_dict(fields["configuration"])
        flags = (fields[name] for name in ("server", "new", "stay"))
        return cls(fields["directory"], fields["job"], configuration, *flags)

    def job_directory(self) -> JobDirectory:
        """Open the directory with the epochs of the job."""
        storage = storage_for(self.directory, durable=False, options=store_options(self.configuration))
        try:
            return JobDirectory.open(storage, self.job_id)
        except CheckpointError:
            if self.job_id is None or not self.is_new:
                raise
            return JobDirectory(storage, self.job_id, self.directory)


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[tuple[str, int]]:
    """Serve queries while the block runs. Yields the host and port of the service."""
    get = service.configuration.get
    token = read_token(get(QueryableStateOptions.TOKEN), QueryableStateOptions.TOKEN.key)
    access = Access(get(QueryableStateOptions.BIND_ADDRESS), token)
    option = QueryableStateOptions.SERVER_PORTS if service.is_server else QueryableStateOptions.PROXY_PORTS
    ports = ports_of(get(option), option.key)
    servers = 1 if service.is_server else get(QueryableStateOptions.SERVERS)
    async with AsyncExitStack() as undo:
        if servers > 1:
            addresses = [await undo.enter_async_context(_child(service)) for _ in range(servers)]
            proxy = StateProxy(addresses, token)
            undo.push_async_callback(proxy.close)
            listening = await serve_queries(proxy.handle, access, ports)
        else:
            states = CommittedStates(service.job_directory(), cache_bytes=get(QueryableStateOptions.CACHE_SIZE))
            server = StateServer(states, threads=get(QueryableStateOptions.SERVER_QUERY_THREADS) or 2)
            undo.callback(server.close)
            with suppress(TidemillError):  # follow() tries again
                await asyncio.get_running_loop().run_in_executor(None, states.refresh)
            following = asyncio.create_task(server.follow(get(QueryableStateOptions.POLL_INTERVAL).total_seconds()))
            undo.callback(following.cancel)
            listening = await serve_queries(server.handle, access, ports)
        undo.push_async_callback(listening.close)
        yield access.host, listening.port


@asynccontextmanager
async def _child(service: Service) -> AsyncIterator[tuple[str, int]]:
    """Run a state server in a separate process, which ends with the block or with this process."""
    process = await asyncio.create_subprocess_exec(
        *command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 16
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a state server was started without pipes")
    try:
        process.stdin.write(replace(service, is_server=True, stay=False).to_json().encode() + b"\n")
        line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        if not line:
            raise RuntimeError("a state server ended before it was listening; see its log")
        yield parse_address(line)
    finally:
        process.stdin.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), _START_SECONDS)


def command() -> list[str]:
    """Return the command that runs the service that it reads from standard input."""
    return [sys.executable, "-m", "tidemill.ops.queryable", "--from-stdin"]


def address_line(address: tuple[str, int]) -> str:
    """Return the line that a process writes when it is listening."""
    return json.dumps({"host": address[0], "port": address[1]})


def parse_address(line: bytes | str) -> tuple[str, int]:
    """The inverse of :func:`address_line`."""
    found: dict[str, Any] = json.loads(line)
    return str(found["host"]), int(found["port"])


async def serve(service: Service, ended: asyncio.Event, ready: Callable[[tuple[str, int]], None]) -> None:
    """Serve queries until ``ended`` is set; ``ready`` is called with the address."""
    async with serving(service) as address:
        log.info("queryable state of job %s is served at %s:%d", service.job_id or service.directory, *address)
        server = QueryServer(
            service.job_id or service.directory.rstrip("/").rpartition("/")[2],
            *address,
            os.getpid(),
            service.directory,
            service.stay,
        )
        with nullcontext() if service.is_server else recorded(server):
            ready(address)
            await ended.wait()
