"""Clients that hang, read nothing or go away, and a server that is gone: no job notices."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import IncompleteRead
from pathlib import Path

import pytest

from tests.unit.ops.rest.serving import Client, events, is_running, loop_of, options, serving
from tests.waiting import eventually
from tidemill.common.job_client import JobClient
from tidemill.ops.rest import guard, server
from tidemill.ops.rest.resources import epochs
from tidemill.ops.rest.server import servers


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[Client, JobClient]]:
    with serving(options(tmp_path)) as found:
        yield found


def goes_on(job: JobClient) -> None:
    """Fails unless the job commits epochs as before."""
    before = job.get_checkpoint_history().completed
    eventually(lambda: job.get_checkpoint_history().completed > before + 2)
    assert is_running(job)


def connected(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.server.port), timeout=60)


def is_cut_off(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:  # what it has sent was not read
        return True


def test_a_silent_connection_holds_up_no_other(job: tuple[Client, JobClient]) -> None:
    client, running = job
    with ExitStack() as silent:
        for _ in range(server.MOST_CONNECTIONS):
            silent.enter_context(connected(client))
        assert client.get("/config").status == 200, "all places are taken, by nobody who asks for anything"
        goes_on(running)


def test_who_says_nothing_is_cut_off(job: tuple[Client, JobClient], monkeypatch: pytest.MonkeyPatch) -> None:
    client, running = job
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.5)
    with connected(client) as begun, connected(client) as silent:
        with suppress(ConnectionError):  # if it was cut off before that
            begun.sendall(b"GET /jobs HTTP/1.1\r\nHost: local")
        assert is_cut_off(begun)
        assert is_cut_off(silent)
    goes_on(running)


def test_where_all_are_being_answered_others_come_later(
    job: tuple[Client, JobClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, running = job
    monkeypatch.setattr(epochs, "_MOST_STREAMS", server.MOST_CONNECTIONS)
    path = f"/jobs/{running.get_job_id()}"
    with ExitStack() as busy:
        for _ in range(server.MOST_CONNECTIONS - 1):
            busy.enter_context(events(client, path))
        assert client.get("/config").status == 503
        goes_on(running)
    eventually(lambda: client.get("/config").status == 200)


def test_what_is_no_http_is_answered_all_the_same(job: tuple[Client, JobClient]) -> None:
    client, running = job
    for wrong in (b"\x16\x03\x01 hello\r\n\r\n", b"GET /" + b"x" * 70_000):
        with connected(client) as other:
            other.sendall(wrong)
            answer = b""
            with suppress(ConnectionResetError):  # not all of what was sent was read
                while part := other.recv(4096):
                    answer += part
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"x-content-type-options: nosniff" in answer
        assert answer.endswith(b'{"errors": ["Invalid HTTP request received."]}')
    goes_on(running)


def test_a_body_that_does_not_come_is_not_waited_for(
    job: tuple[Client, JobClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, running = job
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    with connected(client) as half:
        half.sendall(
            f"POST /jobs/{running.get_job_id()}/stop HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{".encode()
        )
        assert half.recv(12) == b"HTTP/1.1 408"
    goes_on(running)


def test_who_reads_nothing_is_cut_off(job: tuple[Client, JobClient], monkeypatch: pytest.MonkeyPatch) -> None:
    client, running = job
    monkeypatch.setattr(epochs, "_PAUSE", 0.0)
    monkeypatch.setattr(epochs, "_LOOK", 0.001)
    monkeypatch.setattr(guard, "SEND_SECONDS", 0.5)
    told = threading.Event()

    def much(*arguments: object) -> str:
        told.set()
        return "x" * 1_000_000

    monkeypatch.setattr(epochs, "_message", much)
    streams = client.server.app.state.streams.open
    with connected(client) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET /jobs/{running.get_job_id()}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert told.wait(60)
        goes_on(running)
        assert client.get("/config").status == 200, "others are answered meanwhile"
        eventually(lambda: not streams)
    goes_on(running)


def test_so_many_streams_of_events_are_open_at_a_time(
    job: tuple[Client, JobClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, running = job
    monkeypatch.setattr(epochs, "_MOST_STREAMS", 2)
    path = f"/jobs/{running.get_job_id()}"
    with events(client, path) as one, events(client, path) as two:
        assert one.readline() == two.readline() == b"event: job\n"
        assert client.get(f"{path}/events").status == 503
    eventually(lambda: not client.server.app.state.streams.open)


def test_a_job_continues_when_its_server_is_gone(job: tuple[Client, JobClient]) -> None:
    client, running = job
    with events(client, f"/jobs/{running.get_job_id()}") as open_stream:
        client.server.close()
        eventually(lambda: not client.server.is_alive)
        with suppress(IncompleteRead, ConnectionError):  # one that does not end within a second is cut off
            open_stream.read()
    with pytest.raises(ConnectionRefusedError):
        client.get("/jobs")
    assert client.server not in servers()
    goes_on(running)


def test_a_job_continues_when_its_server_breaks(job: tuple[Client, JobClient]) -> None:
    client, running = job
    loop = loop_of(client.server)
    loop.call_soon_threadsafe(loop.stop)
    eventually(lambda: not client.server.is_alive)
    goes_on(running)
