"""Moto's S3 server, which carries out one change at a time: ``python -m tests.s3_server``.

Moto looks whether an object is there and puts it in two steps, so that of two requests to create one object both may
win. S3 promises that one of them does, and so must the server that stands for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_HOST = "127.0.0.1"
_READS = ("GET", "HEAD")


class OneChangeAtATime:
    """Passes requests on to an application: reads at once, all others one after the other."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._changing = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in _READS:
            return self._application(environ, start_response)
        with self._changing:
            return list(self._application(environ, start_response))


if __name__ == "__main__":
    run_simple(_HOST, 0, OneChangeAtATime(DomainDispatcherApplication(create_backend_app)), threaded=True)
