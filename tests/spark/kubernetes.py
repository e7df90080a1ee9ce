"""A Kubernetes without Kubernetes: an API server on loopback whose pods are processes of this machine.

It knows as much of the API as Spark's driver uses to have executors. A pod's first container is started with its
arguments and environment, by the entry point of the image; there is no image, and nothing is mounted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

_PATH: Final = re.compile(r"/api/v1/namespaces/(?P<namespace>[\w-]+)/(?P<kind>\w+)(?:/(?P<name>[\w.-]+))?$")
Json = dict[str, Any]


class FakeKubernetes:
    """Pods by name, and the processes that they are."""

    def __init__(self, folder: Path, entrypoint: Path, environment: Mapping[str, str], driver: str) -> None:
        """``driver`` is a pod that is there, and is no process of ours. Logs go to ``folder``."""
        self._folder = folder
        self._entrypoint = entrypoint
        self._environment = environment
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pods: dict[str, Json] = {driver: {"metadata": {"name": driver, "uid": driver}, "spec": {}}}
        #: All pods that were ever requested.
        self.asked_for: list[Json] = []

    def running(self) -> list[str]:
        """The names of the pods whose processes run."""
        with self._lock:
            return [name for name, process in self._processes.items() if process.poll() is None]

    def kill(self, name: str) -> None:
        """Kill a pod: all of its processes, at once."""
        with self._lock:
            process = self._processes[name]
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """What the API says: a status, and a document."""
        found = _PATH.match(path.partition("?")[0])
        if found is None:
            return 404, {"kind": "Status", "code": 404}
        with self._lock:
            if found["kind"] == "pods":
                return self._answer_about_pods(method, found["name"], body)
        if method == "POST":
            return 201, body
        return 200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}

    def close(self) -> None:
        """Kill what runs."""
        for name in self.running():
            self.kill(name)

    def _answer_about_pods(self, method: str, name: str | None, body: Json) -> tuple[int, Json]:
        if method == "POST":
            return 201, self._start(body)
        if method == "DELETE":
            for gone in [name] if name else [*self._processes]:
                process = self._processes.pop(gone, None)
                self._pods.pop(gone, None)
                if process is not None and process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            return 200, {"kind": "Status", "status": "Success"}
        if name is None:
            items = [self._shown(one) for one in self._pods]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
        return (200, self._shown(name)) if name in self._pods else (404, {"kind": "Status", "code": 404})

    def _start(self, pod: Json) -> Json:
        name = pod["metadata"]["name"]
        pod["metadata"]["uid"] = str(uuid.uuid4())
        self.asked_for.append(pod)
        address = f"127.0.0.{10 + len(self.asked_for)}"
        fields = {"status.podIP": address, "metadata.name": name}
        container = pod["spec"]["containers"][0]
        environment = {
            one["name"]: one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container["env"]
        }
        directory = self._folder / name
        directory.mkdir()
        with (directory / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(self._entrypoint), *container["args"]],
                env={
                    **self._environment,
                    **environment,
                    "SPARK_LOCAL_DIRS": str(directory / "local"),
                    "SPARK_LOCAL_IP": address,
                },
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._pods[name] = pod
        return self._shown(name)

    def _shown(self, name: str) -> Json:
        process = self._processes.get(name)
        code = None if process is None else process.poll()
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code, "reason": "Error"}}
        status = {
            "phase": "Running" if code is None else "Failed",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "executor", "ready": code is None, "restartCount": 0, "state": state}],
        }
        return {**self._pods[name], "kind": "Pod", "apiVersion": "v1", "status": status}


@contextmanager
def serving(cluster: FakeKubernetes) -> Iterator[str]:
    """The address of the API server of a cluster."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            status, document = cluster.answer(self.command, self.path, json.loads(self.rfile.read(length) or b"{}"))
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - names of the standard library

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so is this
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        cluster.close()
