"""Starts the queryable state server of a job: a separate process that reads what the job commits.

The server makes no requests to the driver, and the driver does not wait for it. It ends when the driver process ends,
even after a crash, unless it is configured to keep running.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tidemill.common.completable_future import CompletableFuture
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, QueryableStateOptions
from tidemill.errors import ConfigurationError

__all__ = ["QueryableService", "address_of", "start_queryable_state", "stop_queryable_state"]

log = logging.getLogger(__name__)

_MODULE = "tidemill.ops.queryable"
_END_SECONDS = 10.0

#: The services of the jobs of this process.
_running: dict[str, QueryableService] = {}
_lock = threading.Lock()


class QueryableService:
    """The server of one job; ``address`` is (host, port), once it listens."""

    def __init__(self, job_id: str, settings: str, *, stay: bool) -> None:
        """``settings`` is the line that the server reads from its standard input; it may contain secrets."""
        self._job_id = job_id
        self._stay = stay
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", _MODULE, "--from-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=stay,
        )
        self.address: CompletableFuture[tuple[str, int]] = CompletableFuture()
        self._listener = threading.Thread(
            target=self._listen, args=(settings,), name="tidemill-queryable-state", daemon=True
        )
        self._listener.start()

    def is_running(self) -> bool:
        """Whether the server process is running."""
        return self._process.poll() is None

    def close(self) -> None:
        """Stop the server, unless it is configured to keep running."""
        if self._stay:
            return
        self._listener.join()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self, settings: str) -> None:
        """Send the settings to the server, and read its address."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the server was started without pipes")
        line = ""
        with contextlib.suppress(OSError), self._process.stdout as output:
            self._process.stdin.write(settings + "\n")
            self._process.stdin.flush()
            line = output.readline()
        if line:
            told = json.loads(line)
            self.address._future.set_result((told["host"], told["port"]))
            log.info("queryable state of job %s is available at %s:%s", self._job_id, told["host"], told["port"])
        else:
            error = ConfigurationError(f"the queryable state server of job {self._job_id} could not be started")
            self.address._future.set_exception(error)
            log.warning("%s; the job continues without it", error)


def start_queryable_state(configuration: Configuration, job_id: str, directory: Path | None) -> Callable[[], None]:
    """Start the server of a job, if ``queryable-state.enable`` is set; ``directory`` is the job's, if it is local.

    Returns a function to be called when the job has ended. It stops the server only if the job's state is deleted with
    the job. Otherwise the server runs until this process ends, and also serves a job that is restarted with the same
    id.
    """
    if not configuration.get(QueryableStateOptions.ENABLE):
        return _nothing
    configured = configuration.get(CheckpointingOptions.DIRECTORY)
    location = f"{str(configured).rstrip('/')}/{job_id}" if directory is None else str(directory)
    stay = configuration.get(QueryableStateOptions.KEEP_RUNNING)
    settings = {  # as tidemill.ops.queryable.service.Service reads it
        "directory": location,
        "job": job_id,
        "configuration": configuration.to_dict(),
        "server": False,
        "new": True,
        "stay": stay,
    }
    with _lock:
        known = _running.get(job_id)
        if known is None or not known.is_running():
            _running[job_id] = QueryableService(job_id, json.dumps(settings), stay=stay)
    return _nothing if configured is not None else partial(stop_queryable_state, job_id)


def stop_queryable_state(job_id: str) -> None:
    """Stop the server of a job of this process, if it has one."""
    with _lock:
        service = _running.pop(job_id, None)
    if service is not None:
        service.close()


def address_of(job_id: str, timeout: float = 30.0) -> tuple[str, int]:
    """The host and port of the queryable state server of a job of this process. Waits until the server listens.

    Raises :class:`ConfigurationError` if the job has no server, or it could not be started.
    """
    service = _running.get(job_id)
    if service is None:
        raise ConfigurationError(f"job {job_id} has no queryable state server: set queryable-state.enable: true")
    return service.address.result(timeout)


def _nothing() -> None:
    """Do nothing: there is no server to stop."""
