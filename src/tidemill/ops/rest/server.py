"""The REST server of a driver process: a thread with its own event loop, for which no job waits.

Jobs with the same settings share a server. It runs until the process ends, so that ended jobs can be inspected. It
serves a bounded number of clients. A client that sends nothing, or receives nothing, is disconnected after a while.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
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
from tidemill.ops.rest.jobs_shown import OtherJobs, ShownJob, ShownJobs
from tidemill.ops.rest.listening import listen
from tidemill.ops.rest.notices import SERVER, is_announced, tell_always
from tidemill.ops.rest.program_runs import Programs
from tidemill.ops.rest.settings import RestSettings
from tidemill.runtime.driver.job import RunningJob

__all__ = ["RestServer", "close_servers", "server_for", "servers", "warn_of"]

log = logging.getLogger(SERVER)

#: Maximum number of connections. A further one replaces a connection that waits for a request, or gets status 503.
MOST_CONNECTIONS: Final = 64
#: Maximum number of connections including those whose TLS handshake is in progress.
_MOST_TAKEN: Final = 2 * MOST_CONNECTIONS
#: How long a connection may be open without a request.
IDLE_SECONDS: Final = 10.0
_LONGEST_HEADERS: Final = 64 << 10
_SECONDS_TO_STOP: Final = 2.0
#: How long a program that has ended waits for clients to poll the results of their operations.
_SECONDS_TO_TELL: Final = 3.0
#: A web page that has requested nothing for this long has all that it needs.
_QUIET_SECONDS: Final = 0.5


class _Connection(H11Protocol):
    """A connection that ends if no request arrives, or if the client does not receive the response."""

    _watch: asyncio.TimerHandle | None = None
    #: Since when the connection has been waiting for a request.
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
        """Respond to an invalid or too long HTTP request in the same format as to other requests."""
        body = error_body(msg)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        answer = h11.Response(status_code=400, headers=[*headers, (b"connection", b"close"), *SAFE_HEADERS], reason=b"")
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _is_waiting(self) -> bool:
        """Whether no request is in progress."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        """End the connection that has waited longest for a request, so that idle connections do not keep out others."""
        others = (one for one in self.connections if isinstance(one, _Connection) and one is not self)
        waiting = [one for one in others if one._is_waiting and not one.transport.is_closing()]
        if waiting:
            oldest = min(waiting, key=lambda one: one._since)
            # Aborted, not closed, because a TLS client that does not respond to a close would stay connected. It is
            # removed from the count immediately.
            oldest.transport.abort()
            self.connections.discard(oldest)

    def _look(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # the client does not receive the end of the response
        elif self._is_waiting and self.loop.time() - self._since >= IDLE_SECONDS:
            self.transport.close()
        self._watch = self.loop.call_later(IDLE_SECONDS, self._look)


class RestServer:
    """A server that listens as soon as it is created. Raises OSError if none of the ports is free.

    ``programs`` stores and runs uploaded programs, if the settings enable this. ``others`` are the jobs of other
    drivers or of a history.
    """

    def __init__(
        self,
        settings: RestSettings,
        programs: Programs | None = None,
        others: OtherJobs | None = None,
    ) -> None:
        self.settings = settings
        self.jobs = ShownJobs(settings.ended_jobs, others)
        listening = listen(settings.host, settings.ports, _MOST_TAKEN, self._served)
        self.port: int = listening.getsockname()[1]
        self.app = create_app(self.jobs, settings, programs)
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
        """The URL for clients."""
        host = self.settings.address or self.settings.host
        scheme = "http" if self.settings.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether the server is still running."""
        return self._thread.is_alive()

    def show(self, client: JobClient) -> None:
        """Show a job that was started in this process."""
        if isinstance(client, RunningJob) and client.outline is not None:
            self.jobs.add(ShownJob(client, client.outline))
            if client.outline.record is not None:
                client.outline.record.reachable_at(self.url)

    def finish(self) -> None:
        """Before the process ends, give clients a moment to receive the results of their operations, and the last data.

        A client that stops a job with a savepoint requests the path when the program is about to end. An open web page
        requests all that it can show when it has received the last event of the job.
        """
        until = time.monotonic() + _SECONDS_TO_TELL
        is_watched = bool(self.app.state.streams.open)
        was_operated = self.app.state.operations.await_told(_SECONDS_TO_TELL)
        while is_watched and time.monotonic() < until and not self._is_quiet():
            time.sleep(_QUIET_SECONDS / 10)
        if is_watched or was_operated:
            self.close()

    def close(self) -> None:
        """Stop listening. Requests in progress have one second to complete."""
        self.app.state.streams.closing = True
        self._server.should_exit = True
        self._thread.join(_SECONDS_TO_STOP + 1)

    def _is_quiet(self) -> bool:
        """Whether no request is in progress, and none was for a moment."""
        last = time.monotonic() - _QUIET_SECONDS
        found = [one for one in list(self._server.server_state.connections) if isinstance(one, _Connection)]
        return all(one._is_waiting and one._since < last for one in found)

    def _served(self) -> set[int]:
        """Return the file descriptors of the connections that may send requests."""
        found = (one.transport.get_extra_info("socket") for one in self._server.server_state.connections)
        return {connection.fileno() for connection in found if connection is not None}

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[listening]))
        except BaseException:  # also those that end a process
            log.exception("the REST server has ended; jobs continue")
        finally:
            listening.close()


class _NoServer:
    """Placeholder for a server that could not listen: the job runs without it."""

    def show(self, client: JobClient) -> None:
        """Do nothing."""


_lock = threading.Lock()
_servers: dict[RestSettings, RestServer] = {}


def server_for(configuration: Configuration) -> Any:
    """Return the server for a configuration: an existing one with the same settings, or a new one.

    Its address is logged (but see :func:`~tidemill.ops.rest.notices.unannounced`). If no port is free, a warning is
    logged, and the job runs without a server. Raises :class:`~tidemill.errors.ConfigurationError` for invalid settings.
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
        log.info("the web page and REST API of this driver are at %s%s", server.url, _wanted(configuration))
    warn_of(server)
    return server


def warn_of(server: RestServer) -> None:
    """Log warnings about insecure settings of a server."""
    settings = server.settings
    if not is_loopback(settings.host) and settings.is_open:
        log.warning(
            "anyone who can reach %s may stop jobs, delete savepoints and read state: %s",
            server.url,
            RestOptions.ANYONE.key,
        )
    if not is_loopback(settings.host) and settings.certificate is None:
        log.warning("REST is served at %s without TLS: set rest.ssl.certificate, or use a TLS proxy", server.url)


def _wanted(configuration: Configuration) -> str:
    """Return a note about the required token and where it is stored."""
    where = configuration.get(RestOptions.OPERATE_TOKEN) or configuration.get(RestOptions.READ_TOKEN)
    if where is None:
        return ""
    kind, _, name = where.partition(":")
    return f"; it requires the token in {'the file' if kind == 'file' else 'the environment variable'} {name}"


def _subject(certificate: dict[str, Any]) -> str:
    """Return the subject of a certificate as text."""
    return ", ".join(f"{name}={value}" for part in certificate.get("subject", ()) for name, value in part)


def servers() -> list[RestServer]:
    """Return the running servers of this process."""
    with _lock:
        return [server for server in _servers.values() if server.is_alive]


def close_servers() -> None:
    """Close all servers of this process. Their jobs continue."""
    with _lock:
        closing = list(_servers.values())
        _servers.clear()
    for server in closing:
        server.close()
