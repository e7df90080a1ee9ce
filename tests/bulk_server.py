"""A server in this process that has the bulk API of Elasticsearch and OpenSearch, as strict as they are.

It rejects what a real one rejects (the content type, a missing newline at the end, types of documents by version), runs
actions in order, and can refuse single actions or whole requests on request.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Returns the status with which an action is refused, or None: called with its kind, its target and its document.
Refuse = Callable[[str, dict[str, Any], dict[str, Any]], int | None]


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not wait for its answer is no error."""


class BulkServer:
    """A cluster of one node. ``version`` is the major version of Elasticsearch whose rules apply."""

    def __init__(self, version: int = 8) -> None:
        self.version = version
        self.indices: dict[str, dict[str, dict[str, Any]]] = {}
        #: The number of actions of each request.
        self.requests: list[int] = []
        self.paths: list[str] = []
        self.authorizations: list[str | None] = []
        self.refuse: Refuse = lambda kind, target, document: None
        #: The statuses that whole requests are answered with, before any is carried out; 0 closes the connection.
        self.troubles: list[int] = []
        self.delay = 0.0
        self.most_bytes = 100 << 20
        self._generated = 0
        self._lock = threading.Lock()
        self._server = _Quiet(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def documents(self, index: str) -> list[dict[str, Any]]:
        with self._lock:
            return list(self.indices.get(index, {}).values())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def bulk(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Carry out a request."""
        if not body.endswith(b"\n"):
            return 400, {"error": "The bulk request must be terminated by a newline [\\n]"}
        lines = [json.loads(line) for line in body.splitlines()]
        items = []
        with self._lock:
            while lines:
                ((kind, target),) = lines.pop(0).items()
                document = {} if kind == "delete" else lines.pop(0)
                items.append({kind: self._carry_out(kind, target, document)})
            self.requests.append(len(items))
        return 200, {"took": 1, "errors": any("error" in next(iter(item.values())) for item in items), "items": items}

    def _carry_out(self, kind: str, target: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
        if "_type" in target and self.version >= 8:
            return {
                "status": 400,
                "error": {"type": "illegal_argument_exception", "reason": "unknown parameter [_type]"},
            }
        if "_type" not in target and self.version == 6:
            return {
                "status": 400,
                "error": {"type": "action_request_validation_exception", "reason": "type is missing"},
            }
        status = self.refuse(kind, target, document)
        if status is not None:
            return {"status": status, "error": {"type": "refused", "reason": "the test says so"}}
        documents = self.indices.setdefault(target["_index"], {})
        if kind == "index":
            self._generated += 1
            documents[target.get("_id", f"generated-{self._generated}")] = document
        elif kind == "update":
            if target["_id"] not in documents and not document.get("doc_as_upsert"):
                return {"status": 404, "error": {"type": "document_missing_exception"}}
            documents[target["_id"]] = {**documents.get(target["_id"], {}), **document["doc"]}
        else:
            raise AssertionError(f"no test sends {kind}")
        return {"_index": target["_index"], "_id": target.get("_id"), "status": 201}

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler is self
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                server.paths.append(self.path)
                server.authorizations.append(self.headers["authorization"])
                trouble = server.troubles.pop(0) if server.troubles else None
                if trouble == 0:
                    self.close_connection = True
                    return
                time.sleep(server.delay)
                if trouble is not None:
                    self._answer(trouble, {"error": f"trouble {trouble}"})
                elif not self.path.endswith("/_bulk"):
                    self._answer(404, {"error": "no such path"})
                elif self.headers["content-type"] not in ("application/x-ndjson", "application/json"):
                    self._answer(406, {"error": "Content-Type header is not supported"})
                elif len(body) > server.most_bytes:
                    self._answer(413, {"error": "too large"})
                else:
                    self._answer(*server.bulk(body))

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json; charset=UTF-8")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
                pass

        return Handler


@contextmanager
def bulk_server(version: int = 8) -> Iterator[BulkServer]:
    server = BulkServer(version)
    try:
        yield server
    finally:
        server.close()


def basic(user: str, password: str) -> str:
    """The header of a login."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
