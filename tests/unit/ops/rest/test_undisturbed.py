"""Whatever happens to the REST server and its clients, a job comes to the same result: here it fails once meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ops.rest.serving import environment, loop_of, options
from tests.waiting import eventually
from tidemill.common.job_client import JobClient
from tidemill.common.job_status import JobStatus
from tidemill.datastream.functions import MapFunction
from tidemill.ops.rest import guard
from tidemill.ops.rest.resources import epochs
from tidemill.ops.rest.server import RestServer, close_servers, servers
from tidemill.testing.recording_sink import Recording, RecordingSink

LAST = 400
EXPECTED = {digit: sum(range(digit or 10, LAST + 1, 10)) for digit in range(10)}


class Story:
    """One run: the job waits in the middle until the trouble is there, then fails once and starts again."""

    def __init__(self) -> None:
        self.trouble_is_there = threading.Event()
        self.has_failed = False

    def tell(self, n: int) -> tuple[int, int]:
        if n > LAST // 4:
            assert self.trouble_is_there.wait(60)
        if n == LAST // 2 and not self.has_failed:
            self.has_failed = True
            raise RuntimeError("once")
        return n % 10, n


STORIES: dict[str, Story] = {}


class Told(MapFunction):
    """Goes to the story by its name, since functions are copied."""

    def __init__(self, story: str) -> None:
        self.story = story

    def map(self, value: int) -> tuple[int, int]:
        return STORIES[self.story].tell(value)


def start(folder: Path, story: str, recording: Recording, **more: str) -> JobClient:
    STORIES[story] = Story()
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "20 ms"}
    env = environment({**options(folder, **more), **restarts, "execution.epoch.min-interval": "0 ms"})
    pairs = env.from_sequence(1, LAST).uid("numbers").map(Told(story)).uid("pairs")
    sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums")
    sums.sink_to(RecordingSink(recording)).uid("sink")
    return env.execute_async(story)


def nobody(server: RestServer, path: str) -> AbstractContextManager[None]:
    return nullcontext()


@contextmanager
def closed(server: RestServer, path: str) -> Iterator[None]:
    close_servers()
    eventually(lambda: not server.is_alive)
    yield


def raised_in_the_loop(kind: type[BaseException]) -> Callable[[RestServer, str], AbstractContextManager[None]]:
    @contextmanager
    def trouble(server: RestServer, path: str) -> Iterator[None]:
        def fail() -> None:
            raise kind("in the loop of the server")

        loop = loop_of(server)
        told: list[Any] = []
        loop.call_soon_threadsafe(loop.set_exception_handler, lambda _, context: told.append(context["exception"]))
        loop.call_soon_threadsafe(fail)
        eventually(lambda: told or not server.is_alive)
        yield

    return trouble


@contextmanager
def dead(server: RestServer, path: str) -> Iterator[None]:
    """The thread has ended in the middle of what it does."""
    loop = loop_of(server)
    loop.call_soon_threadsafe(loop.stop)
    eventually(lambda: not server.is_alive)
    yield


@contextmanager
def sixteen_who_never_read(server: RestServer, path: str) -> Iterator[None]:
    with ExitStack() as waiting:
        for _ in range(epochs._MOST_STREAMS):
            waiting.enter_context(opened(server, f"{path}/events"))
        eventually(lambda: len(server.app.state.streams.open) == epochs._MOST_STREAMS)
        yield


@contextmanager
def one_byte_at_a_time(server: RestServer, path: str) -> Iterator[None]:
    """A client that reads a byte now and then, of events and of a long answer, while the job starts again."""
    done = threading.Event()

    def read(connection: socket.socket) -> None:
        with suppress(ConnectionError):  # who is that slow may be sent away
            while not done.wait(0.05) and connection.recv(1):
                pass

    with opened(server, f"{path}/events") as stream, opened(server, "/openapi.json") as large:
        readers = [threading.Thread(target=read, args=(connection,)) for connection in (stream, large)]
        for reader in readers:
            reader.start()
        yield
        done.set()
        for connection, reader in zip((stream, large), readers, strict=True):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # it waits no longer for what to read
            reader.join()


@contextmanager
def opened(server: RestServer, path: str) -> Iterator[socket.socket]:
    """A request whose answer does not fit into what the two ends hold."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield connection


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(nobody, id="nothing"),
        pytest.param(closed, id="closed"),
        pytest.param(raised_in_the_loop(RuntimeError), id="error in the loop"),
        pytest.param(raised_in_the_loop(SystemExit), id="exit in the loop"),
        pytest.param(dead, id="thread dead"),
        pytest.param(sixteen_who_never_read, id="sixteen who never read"),
        pytest.param(one_byte_at_a_time, id="one byte at a time"),
    ],
)
def test_a_job_comes_to_its_result_beside(
    trouble: Callable[[RestServer, str], AbstractContextManager[None]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "SEND_SECONDS", 0.5)
    monkeypatch.setattr(epochs, "_PAUSE", 0.0)
    monkeypatch.setattr(epochs, "_LOOK", 0.01)
    recording, story = Recording(), request.node.name
    job = start(tmp_path, story, recording)
    server = servers()[-1]
    try:
        with trouble(server, f"/jobs/{job.get_job_id()}"):
            STORIES[story].trouble_is_there.set()
            job.get_job_execution_result().result(60)
    finally:
        server.close()
    assert STORIES.pop(story).has_failed
    assert dict(recording.values()) == EXPECTED


def test_a_job_runs_without_a_server_where_its_port_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, recording = servers(), Recording()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        job = start(tmp_path, "taken", recording, rest_port=str(taken.getsockname()[1]))
        STORIES["taken"].trouble_is_there.set()
        job.get_job_execution_result().result(60)
    assert job.get_job_status().result() is JobStatus.FINISHED
    assert dict(recording.values()) == EXPECTED
    assert set(servers()) <= set(before), "the job has a server"
    assert "the job runs without a REST server" in caplog.text


def test_after_a_server_has_died_the_next_job_has_a_new_one(tmp_path: Path) -> None:
    settings = {"rest.max-requests-per-second": "99999"}
    found: list[RestServer] = []
    for story in ("first", "second"):
        recording = Recording()
        STORIES[story] = Story()
        env = environment({**options(tmp_path / story), **settings})
        env.from_sequence(1, 5).uid("numbers").sink_to(RecordingSink(recording)).uid("sink")
        job = env.execute_async(story)
        job.get_job_execution_result().result(60)
        found.append(servers()[-1])
        with dead(found[-1], f"/jobs/{job.get_job_id()}"):
            assert not found[-1].is_alive
    assert found[0] is not found[1]
