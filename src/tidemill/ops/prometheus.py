"""An endpoint that serves the metrics of jobs to Prometheus: ``metrics.reporter.prom.port``.

The endpoint listens on loopback by default. On any other address it requires a token, which scrapers send as
``Authorization: Bearer``. It serves requests in daemon threads: a few at a time, each for a few seconds. It collects
the metrics of a job at most once a second.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.errors import ConfigurationError
from tidemill.metrics.registry import MetricRegistry
from tidemill.metrics.reporter import MetricReporter
from tidemill.ops.access import host_of, is_loopback, ports_of, read_token, same_secret
from tidemill.ops.prometheus_format import families_of

__all__ = ["PrometheusReporter"]

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = "9249"
_MOST_AT_ONCE: Final = 4
_SECONDS: Final = 10.0
#: A scrape within this many seconds of another one gets the same response.
_FRESH: Final = 1.0
_KEY: Final = "metrics.reporter.prom."


class _Jobs(Collector):
    """Collects the metrics of jobs for the Prometheus client library."""

    def __init__(self, registries: Callable[[], list[MetricRegistry]]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        return families_of(registry.snapshot() for registry in self._registries())


class _Server(ThreadingHTTPServer):
    """Serves a few requests at a time and rejects further ones with status 503."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, host: str, port: int, endpoint: Endpoint) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.Semaphore(_MOST_AT_ONCE)
        self.endpoint = endpoint
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            request.settimeout(_FRESH)
            try:
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            finally:
                self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a scrape of metrics from %s did not complete: %s", client_address, sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS

    def do_GET(self) -> None:
        endpoint = self.server.endpoint
        if not endpoint.is_for_us(self.headers.get("Host", "")):
            self.send_error(403, "This endpoint does not serve this host name")
        elif not endpoint.admits(self.headers.get("Authorization", "")):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404)
        else:
            text, content_type = endpoint.text(self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        log.debug(format, *args)


class Endpoint:
    """An address at which the metrics of jobs of this process can be scraped."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self._host = host
        self._token = token
        self._registries: list[MetricRegistry] = []
        self._families = CollectorRegistry(auto_describe=False)
        self._families.register(_Jobs(lambda: list(self._registries)))
        ProcessCollector(registry=self._families)
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[float, bytes]] = {}
        self._server = _Server(host, port, self)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="tidemill-prometheus", daemon=True
        )
        self._thread.start()

    def add(self, registry: MetricRegistry) -> None:
        """Serve the metrics of a job."""
        self._registries.append(registry)

    def remove(self, registry: MetricRegistry) -> bool:
        """Stop serving the metrics of a job. Returns whether any job is left."""
        self._registries.remove(registry)
        return bool(self._registries)

    def close(self) -> None:
        """Stop listening, without waiting for scrapes in progress."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that a scraper accepts, and its content type."""
        encode, content_type = choose_encoder(accept)
        with self._lock:  # concurrent scrapers share one response
            made, text = self._answers.get(content_type, (-_FRESH, b""))
            if time.monotonic() - made >= _FRESH:
                text = encode(self._families)
                self._answers[content_type] = (time.monotonic(), text)
        return text, content_type

    def admits(self, authorization: str) -> bool:
        """Whether a scraper sent the token, if one is required."""
        if self._token is None:
            return True
        return same_secret(authorization, f"Bearer {self._token}")

    def is_for_us(self, host: str) -> bool:
        """Whether the ``Host`` header names this machine. On loopback this prevents DNS rebinding by web pages."""
        return not is_loopback(self._host) or not host or is_loopback(host_of(host))


class PrometheusReporter(MetricReporter):
    """Serves the metrics of a job at an endpoint. Jobs of one process with the same address share the endpoint.

    Options: ``port``, a number, or a range whose first free port is used (default 9249); ``host`` (default 127.0.0.1);
    ``token``, where the token is stored (``env:NAME`` or ``file:PATH``), which is required if ``host`` is not loopback.
    """

    _shared: dict[tuple[str, str, str | None], Endpoint] = {}  # noqa: RUF012 - the endpoints of this process
    _lock = threading.Lock()

    def open(self, registry: MetricRegistry, options: Mapping[str, str]) -> None:
        host, ports = options.get("host", "127.0.0.1"), options.get("port", DEFAULT_PORT)
        token = read_token(options.get("token"), f"{_KEY}token")
        if token is None and not is_loopback(host):
            raise ConfigurationError(
                f"{_KEY}host: {host} can be reached from other machines: set {_KEY}token, which scrapers must then "
                "send as a bearer token"
            )
        self._registry = registry
        self._address = (host, ports, token)
        with self._lock:
            endpoint = self._shared.get(self._address)
            if endpoint is None:
                endpoint = self._shared[self._address] = _listening(host, ports, token)
                if not is_loopback(host):
                    log.warning("metrics are served at %s:%d without TLS", host, endpoint.port)
            endpoint.add(registry)
        self.port = endpoint.port

    def report(self, snapshot: MetricSnapshot) -> None:
        """Do nothing: scrapers request the metrics."""

    def close(self) -> None:
        with self._lock:
            endpoint = self._shared[self._address]
            if endpoint.remove(self._registry):
                return
            del self._shared[self._address]
        endpoint.close()


def _listening(host: str, ports: str, token: str | None) -> Endpoint:
    refused: OSError | None = None
    for port in ports_of(ports, f"{_KEY}port"):
        try:
            return Endpoint(host, port, token)
        except OSError as error:
            refused = error
    raise OSError(f"cannot listen on any port of {ports} on {host}: {refused}")
