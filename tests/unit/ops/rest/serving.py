"""A job on the local engine with its REST server, and a client that speaks HTTP and nothing more."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.common.job_client import JobClient
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.server import RestServer, servers
from tidemill.runtime.driver.job import RunningJob

_LIMITS = itertools.count(100_000)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def errors(self) -> str:
        """The text of an error; fails for an answer that is none."""
        assert set(self.json) == {"errors"}
        return " ".join(self.json["errors"])


class Client:
    """Asks one server."""

    def __init__(self, server: RestServer, headers: Mapping[str, str] | None = None) -> None:
        self.server = server
        self.headers = dict(headers or {})

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        sent = {**self.headers, **(headers or {})}
        data = raw if body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def read(self, path: str) -> Any:
        """The JSON at a path that must be there."""
        answer = self.get(path)
        assert answer.status == 200, answer
        return answer.json

    def finished(self, path: str) -> Any:
        """What an operation came to."""
        return eventually(lambda: (found := self.read(path))["status"]["id"] == "COMPLETED" and found)["operation"]


def loop_of(server: RestServer) -> asyncio.AbstractEventLoop:
    """The loop of a server, once it runs: it listens before that."""
    started: Any = eventually(lambda: getattr(server._server, "servers", None), what="the loop of the server")
    loop: asyncio.AbstractEventLoop = started[0].get_loop()
    return loop


@contextmanager
def events(client: Client, path: str) -> Iterator[http.client.HTTPResponse]:
    """The open stream of events of a job."""
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
    try:
        connection.request("GET", f"{path}/events")
        response = connection.getresponse()
        assert response.status == 200
        yield response
    finally:
        connection.close()


def options(folder: Path, **more: str) -> dict[str, str]:
    return {
        "execution.target": "local",
        "rest.enabled": "true",
        "rest.port": "0",
        # Servers are shared by jobs of equal settings; jobs of different tests have different ones.
        "rest.max-requests-per-second": str(next(_LIMITS)),
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "execution.epoch.max-records": "20",
        "execution.epoch.max-duration": "0 ms",  # each epoch has as many records, on a slow machine too
        "execution.epoch.min-interval": "50 ms",
        **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()},
    }


def environment(settings: Mapping[str, str]) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def start_sums(settings: Mapping[str, str], last: int = 10_000_000) -> JobClient:
    """A job that adds up numbers by their last digit, and runs for long."""
    env = environment(settings)
    sums = (
        env.from_sequence(1, last)
        .uid("numbers")
        .map(lambda n: (n % 10, n))
        .uid("pairs")
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("sums")
    )
    sums.filter(lambda pair: False).print()
    return env.execute_async("sums")


def is_running(job: JobClient) -> bool:
    return not job.get_job_status().result().is_terminal_state()


@contextmanager
def client_of(job: JobClient) -> Iterator[tuple[Client, str]]:
    """A client of the server that was started for a job, and the job's path; the server is closed afterwards."""
    server = servers()[-1]
    try:
        yield Client(server), f"/jobs/{job.get_job_id()}"
    finally:
        server.close()


@contextmanager
def serving(settings: Mapping[str, str]) -> Iterator[tuple[Client, JobClient]]:
    """A job that has committed a few epochs, and a client of its server; both are gone afterwards."""
    job = start_sums(settings)
    with client_of(job) as (client, _):
        try:
            assert isinstance(job, RunningJob)
            eventually(lambda: len(job.epochs) > 2)  # which are noted when all else is
            yield client, job
        finally:
            job.cancel().result(60)
