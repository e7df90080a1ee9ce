"""Starting the server of queryable state beside a job: a process of its own, which reads what the job commits.

It does not ask the driver for anything, and the driver does not wait for it. It ends with the driver, however that
ends, unless it is to stay.
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
        """``settings`` are what the server reads first, in one line; they may hold secrets."""
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
        """Whether it has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the server, if it is not to stay."""
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
        """Tell the server what to serve, and hear from it where."""
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
            log.info("queryable state of job %s can be asked for at %s:%s", self._job_id, told["host"], told["port"])
        else:
            error = ConfigurationError(f"the server of queryable state of job {self._job_id} could not be started")
            self.address._future.set_exception(error)
            log.warning("%s; the job goes on without it", error)


def start_queryable_state(configuration: Configuration, job_id: str, directory: Path | None) -> Callable[[], None]:
    """Start the server of a job, if ``queryable-state.enable`` is set; ``directory`` is the job's, if it is local.

    Returns what is to be called when the job has ended: only where all it committed goes with it does the server end
    then too. Else it ends with this process, and serves a job of the same id that is started again.
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
    """End the server of a job of this process, if it has one."""
    with _lock:
        service = _running.pop(job_id, None)
    if service is not None:
        service.close()


def address_of(job_id: str, timeout: float = 30.0) -> tuple[str, int]:
    """Where the state of a job of this process can be queried: host and port. Waits until the server listens.

    Raises :class:`ConfigurationError` if the job has no server, or it could not be started.
    """
    service = _running.get(job_id)
    if service is None:
        raise ConfigurationError(f"job {job_id} has no server for queryable state: set queryable-state.enable: true")
    return service.address.result(timeout)


def _nothing() -> None:
    """For a job without a server."""
