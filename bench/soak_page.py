"""``python -m bench.soak_page URL JOB``: simulates an open web page of a job, in a separate process.

It sends the same requests as the page. It loads the files, requests the job and its plan, and follows the events. On
each event it requests the new epochs, like the epochs view; periodically it requests one vertex, like the panel of a
vertex. It ends at the end of its standard input, and then prints how much it received.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

#: The same interval as the page's panel of a vertex.
_PANEL_SECONDS = 5.0
_EPOCHS_KEPT = 300
#: How long to wait for the first epoch. After this time the page reports that it is ready in any case.
_PATIENCE = 60.0
#: References to other files.
_IN_PAGE = re.compile(r'<(?:script|link)\b[^>]*?(?:src|href)="([^"#:]+)"')
_IN_SCRIPT = re.compile(r'^(?:import|export)\b[^";]*"(\.[^"]+)"', re.MULTILINE)


class Page:
    """An open page."""

    def __init__(self, url: str, job: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "localhost", parts.port or 80
        self._path = f"/jobs/{job}"
        self._connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        self.events = 0
        self.last_event = 0.0
        self.epochs = 0
        self.bytes = 0
        #: Set when the page has received an epoch.
        self.is_live = threading.Event()

    def load(self) -> None:
        """Load all files that the page references, and send its initial requests."""
        seen, waiting = set(), ["/"]
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                text = self._get(path).decode()
                named = _IN_SCRIPT if path.endswith(".js") else _IN_PAGE
                waiting += [_resolve(path, name) for name in named.findall(text)]
        for path in ("/config", self._path, f"{self._path}/plan", f"{self._path}/config"):
            self._get(path)

    def follow(self) -> None:
        """Read events until the stream ends."""
        last, looked = -1, 0.0
        for message in self._events():
            self.events += 1
            self.last_event = time.monotonic()
            new = json.loads(self._get(f"{self._path}/epochs?after={last}&limit={_EPOCHS_KEPT}"))["epochs"]
            self.epochs += len(new)
            if new:
                self.is_live.set()
            last = new[-1]["epoch"] if new else last
            if time.monotonic() - looked > _PANEL_SECONDS:
                looked = time.monotonic()
                vertex = message["vertices"][self.events % len(message["vertices"])]["id"]
                for what in ("", "/backpressure", "/watermarks"):
                    self._get(f"{self._path}/vertices/{vertex}{what}")

    def _events(self) -> Iterator[Any]:
        stream = http.client.HTTPConnection(self._host, self._port, timeout=60)
        stream.request("GET", f"{self._path}/events")
        response = stream.getresponse()
        name = ""
        for line in iter(response.readline, b""):
            self.bytes += len(line)
            field, _, value = line.decode().strip().partition(": ")
            if field == "event":
                name = value
            elif field == "data" and name == "job":
                yield json.loads(value)

    def _get(self, path: str) -> bytes:
        try:
            body = self._answer(path)
        except (ConnectionError, http.client.HTTPException):  # an idle connection was closed; browsers retry too
            self._connection.close()
            body = self._answer(path)
        self.bytes += len(body)
        return body

    def _answer(self, path: str) -> bytes:
        self._connection.request("GET", path)
        return self._connection.getresponse().read()


def _resolve(path: str, name: str) -> str:
    """Resolve a name in a file to a path."""
    folder = path.rpartition("/")[0]
    parts = [] if name.startswith("/") else folder.strip("/").split("/")
    for part in name.strip("/").split("/"):
        if part == "..":
            parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/" + "/".join(filter(None, parts))


def main() -> int:
    """Follow the job until the end of standard input."""
    page = Page(*sys.argv[1:3])
    page.load()
    threading.Thread(target=page.follow, daemon=True).start()
    page.is_live.wait(_PATIENCE)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    result = {
        "events": page.events,
        "epochs": page.epochs,
        "bytes": page.bytes,
        "seconds since the last event": time.monotonic() - page.last_event,
    }
    sys.stdout.write(f"{json.dumps(result)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
