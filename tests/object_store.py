"""An S3 server on loopback for tests, and a proxy before it that makes requests fail as networks do."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tidemill.python_versions import Self

CREDENTIALS = {"access-key": "tidemill", "secret-key": "a secret of the tests"}
BUCKET = "checkpoints"
_HOST = "127.0.0.1"
_ROOT = Path(__file__).parent.parent


class Server:
    """A running server; ``options`` is what a storage needs to use it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.options = options_for(port)

    def make_bucket(self, name: str) -> str:
        """Create a bucket; returns its URI."""
        request(self.port, "PUT", f"/{name}")
        return f"s3://{name}"


def options_for(port: int) -> dict[str, str]:
    """The options of a storage whose endpoint is on this port; tried few times, so that tests of failures are quick."""
    return {"endpoint": f"http://{_HOST}:{port}", "timeout": "60 s", "max-retries": "2", **CREDENTIALS}


def request(port: int, method: str, path: str) -> int:
    """Send a request of our own; returns the status."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=60)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def object_store(log: Path) -> Iterator[Server]:
    """A server process with one bucket, stopped at the end."""
    with log.open("w") as out:
        command = [sys.executable, "-m", "tests.s3_server"]
        process = subprocess.Popen(command, cwd=_ROOT, stdout=out, stderr=subprocess.STDOUT)
    try:
        server = Server(_port_of(process, log))
        server.make_bucket(BUCKET)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _port_of(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port that the server chose, from what it says when it is ready."""
    for _ in range(600):
        for line in log.read_text().splitlines(keepends=True):
            if f"http://{_HOST}:" in line and line.endswith("\n"):
                return int(line.rpartition(":")[2].split()[0].rstrip("/"))
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the S3 server did not start: {log.read_text()}")


#: Says what happens to a request (its number, method and path): None to pass it on.
Trouble = Callable[[int, str, str], str | None]


class Proxy:
    """Passes requests on to a server, or not.

    A trouble is ``"refuse"`` (the connection is cut before the server receives it), ``"cut"`` (after the server has
    done it, so that nobody knows), ``"slow"`` (no answer until the client gives up), or a status to answer with.
    """

    def __init__(self, server: Server) -> None:
        self.trouble: Trouble = lambda number, method, path: None
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:  # the client gave up: the server would wait for the rest, and all others with it
                    self.close_connection = True
                    return
                proxy.requests.append((self.command, self.path))
                what = proxy.trouble(len(proxy.requests), self.command, self.path)
                if what == "slow":
                    proxy._stopped.wait(60)
                if what in ("refuse", "slow"):
                    self.close_connection = True
                    return
                if what is not None and what.isdigit():
                    self._answer(int(what), {}, b"<Error><Code>InternalError</Code></Error>")
                    return
                connection = http.client.HTTPConnection(_HOST, server.port, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                response = connection.getresponse()
                data = response.read()
                connection.close()
                if what == "cut":
                    self.close_connection = True
                    return
                self._answer(response.status, dict(response.getheaders()), data)

            def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response_only(status)
                for key, value in headers.items():
                    if key.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(key, value)
                length = headers.get("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815  (the base class names them)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self._stopped = threading.Event()
        self._http = ThreadingHTTPServer((_HOST, 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.options = options_for(self.port)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(60)
