"""The REST server of a driver process: a thread with an event loop of its own, which no job waits for.

Jobs with the same settings share a server; it stays when they end, so that they can be looked at, until the process
ends. It serves a bounded number of clients. One that says nothing, or takes nothing, is cut off after a while.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.config import RestOptions
from tidemill.ops.access import is_loopback
from tidemill.ops.rest.app import create_app
from tidemill.ops.rest.guard import SAFE_HEADERS, error_body
from tidemill.ops.rest.jobs_shown import ShownJob, ShownJobs
from tidemill.ops.rest.listening import listen
from tidemill.ops.rest.models.jobs import JobOverview
from tidemill.ops.rest.notices import SERVER, is_announced, tell_always
from tidemill.ops.rest.program_runs import Programs
from tidemill.ops.rest.settings import RestSettings
from tidemill.runtime.driver.job import RunningJob

__all__ = ["RestServer", "close_servers", "server_for", "servers", "warn_of"]

log = logging.getLogger(SERVER)

#: Connections at a time; who comes beyond takes the place of one that waits, or is told to come later.
MOST_CONNECTIONS: Final = 64
#: Those whose TLS handshake goes on come on top.
_MOST_TAKEN: Final = 2 * MOST_CONNECTIONS
#: How long a connection may be open without a request.
IDLE_SECONDS: Final = 10.0
_LONGEST_HEADERS: Final = 64 << 10
_SECONDS_TO_STOP: Final = 2.0
#: How long a program that has ended waits for clients to ask what became of what they have begun.
_SECONDS_TO_TELL: Final = 3.0


class _Connection(H11Protocol):
    """A connection that ends when no request comes, or when nothing of what is sent is taken."""

    _watch: asyncio.TimerHandle | None = None
    #: Since when it waits for a request.
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, "certificate": _subject(certificate)}
        self._since = self.loop.time()
        self._watch = self.loop.call_later(IDLE_SECONDS, self._look)
        if len(self.connections) >= MOST_CONNECTIONS:
            self._make_room()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too long, as everything else is answered."""
        body = error_body(msg)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        answer = h11.Response(status_code=400, headers=[*headers, (b"connection", b"close"), *SAFE_HEADERS], reason=b"")
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _is_waiting(self) -> bool:
        """Whether there is no request to answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        """End the connection that waits longest for a request: who only connects is not to keep others out."""
        others = (one for one in self.connections if isinstance(one, _Connection) and one is not self)
        waiting = [one for one in others if one._is_waiting and not one.transport.is_closing()]
        if waiting:
            oldest = min(waiting, key=lambda one: one._since)
            # Not closed: a TLS client that does not answer to that would stay. Nor does it count until it is gone.
            oldest.transport.abort()
            self.connections.discard(oldest)

    def _look(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # the last of what was sent is not taken
        elif self._is_waiting and self.loop.time() - self._since >= IDLE_SECONDS:
            self.transport.close()
        self._watch = self.loop.call_later(IDLE_SECONDS, self._look)


class RestServer:
    """A server that listens from when it is made. Raises OSError if none of the ports is free.

    ``programs`` are those that it takes, if the settings say that it does; ``elsewhere`` finds jobs of other drivers
    for its lists.
    """

    def __init__(
        self,
        settings: RestSettings,
        programs: Programs | None = None,
        elsewhere: Callable[[], list[JobOverview]] = list,
    ) -> None:
        self.settings = settings
        self.jobs = ShownJobs(settings.ended_jobs)
        listening = listen(settings.host, settings.ports, _MOST_TAKEN, self._served)
        self.port: int = listening.getsockname()[1]
        self.app = create_app(self.jobs, settings, programs, elsewhere)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                http=_Connection,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                backlog=_MOST_TAKEN,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=int(IDLE_SECONDS / 2),
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=_LONGEST_HEADERS,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.certificate_key,
                ssl_ca_certs=settings.client_ca,
                ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
            )
        )
        self._thread = threading.Thread(target=self._run, args=(listening,), name="tidemill-rest", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = self.settings.address or self.settings.host
        scheme = "http" if self.settings.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def show(self, client: JobClient) -> None:
        """Show a job that was started in this process."""
        if isinstance(client, RunningJob) and client.outline is not None:
            self.jobs.add(ShownJob(client, client.outline))

    def finish(self) -> None:
        """Before the process ends: let those who have begun something know what became of it; they have a moment.

        Who stops a job with a savepoint asks for its path when the program has little left to do but to end.
        """
        if self.app.state.operations.await_told(_SECONDS_TO_TELL):
            self.close()

    def close(self) -> None:
        """Listen no longer. Requests that are going on have a second."""
        self.app.state.streams.closing = True
        self._server.should_exit = True
        self._thread.join(_SECONDS_TO_STOP + 1)

    def _served(self) -> set[int]:
        """The file numbers of the connections that may send requests."""
        found = (one.transport.get_extra_info("socket") for one in self._server.server_state.connections)
        return {connection.fileno() for connection in found if connection is not None}

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[listening]))
        except BaseException:  # also what was meant to end a process
            log.exception("the REST server has ended; jobs go on")
        finally:
            listening.close()


class _NoServer:
    """Stands for a server that could not listen: the job runs without it."""

    def show(self, client: JobClient) -> None:
        """Nothing is shown."""


_lock = threading.Lock()
_servers: dict[RestSettings, RestServer] = {}


def server_for(configuration: Configuration) -> Any:
    """The server that a configuration asks for: the one that is there already, or a new one.

    Where it listens is logged (but see :func:`~tidemill.ops.rest.notices.unannounced`). A port that is taken is logged,
    and the job runs without a server. Raises :class:`~tidemill.errors.ConfigurationError` for settings that cannot be.
    """
    settings = RestSettings.of(configuration)
    with _lock:
        found = _servers.get(settings)
        if found is not None and found.is_alive:
            return found
        tell_always(configuration)
        try:
            programs = Programs(configuration, Configuration()) if settings.submit else None
            server = _servers[settings] = RestServer(settings, programs)
        except OSError as error:
            log.warning("the job runs without a REST server: %s", error)
            return _NoServer()
    if is_announced():
        log.info("the page of this driver, and REST, are at %s%s", server.url, _wanted(configuration))
    warn_of(server)
    return server


def warn_of(server: RestServer) -> None:
    """Log what is dangerous about how a server is set up."""
    settings = server.settings
    if not is_loopback(settings.host) and settings.is_open:
        log.warning(
            "whoever reaches %s may stop jobs, delete savepoints and read state: %s", server.url, RestOptions.ANYONE.key
        )
    if not is_loopback(settings.host) and settings.certificate is None:
        log.warning("REST is served at %s without TLS: set rest.ssl.certificate, or a proxy before it", server.url)


def _wanted(configuration: Configuration) -> str:
    """What it wants to be told, and where that is found."""
    where = configuration.get(RestOptions.OPERATE_TOKEN) or configuration.get(RestOptions.READ_TOKEN)
    if where is None:
        return ""
    kind, _, name = where.partition(":")
    return f"; it asks for the token in {'the file' if kind == 'file' else 'the environment variable'} {name}"


def _subject(certificate: dict[str, Any]) -> str:
    """Whom a certificate is about, as it says."""
    return ", ".join(f"{name}={value}" for part in certificate.get("subject", ()) for name, value in part)


def servers() -> list[RestServer]:
    """The servers of this process."""
    with _lock:
        return [server for server in _servers.values() if server.is_alive]


def close_servers() -> None:
    """Close all servers of this process. Their jobs go on."""
    with _lock:
        closing = list(_servers.values())
        _servers.clear()
    for server in closing:
        server.close()
