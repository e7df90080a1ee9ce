"""Lines from a real socket on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.connectors import socket_text
from tidemill.connectors.socket_text import SocketTextSource
from tidemill.connectors.sources import Split, SplitEnumerator
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import JobExecutionError


class Server:
    """Listens on a port of its own; each connection gets the next of ``messages``, and is closed."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        self.messages: list[list[bytes]] = []
        self.thread: threading.Thread | None = None
        self.hold = threading.Event()
        self.hold.set()

    def serve(self, *messages: list[bytes]) -> None:
        """Send each list of chunks over a connection of its own."""
        self.messages = list(messages)
        self.thread = threading.Thread(target=self._main, daemon=True)
        self.thread.start()

    def _main(self) -> None:
        for chunks in self.messages:
            connection, _ = self.listening.accept()
            with connection:
                for chunk in chunks:
                    connection.sendall(chunk)
                self.hold.wait(120)

    def close(self) -> None:
        self.hold.set()
        self.listening.close()
        if self.thread is not None:
            self.thread.join(5)


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


def lines_of(enumerator: SplitEnumerator, max_records: int = 100) -> list[str]:
    """All lines until the source has ended."""
    found: list[str] = []

    def ended() -> bool:
        for split in enumerator.next_splits(1, max_records):
            assert isinstance(split, Split)
            found.extend(split.payload)
        return enumerator.finished

    eventually(ended, shown=lambda: found)
    return found


def read(server: Server, delimiter: str = "\n", max_retry: int = 0, max_records: int = 100) -> list[str]:
    enumerator = SocketTextSource("127.0.0.1", server.port, delimiter, max_retry).create_enumerator(None)
    try:
        return lines_of(enumerator, max_records)
    finally:
        enumerator.close()


def test_lines_come_whole_however_they_are_sent(server: Server) -> None:
    server.serve([b"one\ntw", b"o\n", b"", b"dr", "\N{LATIN SMALL LETTER U WITH DIAERESIS}".encode(), b"\nrest"])
    assert read(server) == ["one", "two", "dr\N{LATIN SMALL LETTER U WITH DIAERESIS}", "rest"]


def test_another_delimiter(server: Server) -> None:
    server.serve([b"a\r\nb\r;", b";c;"])
    assert read(server, delimiter=";") == ["a\r\nb\r", "", "c"]


def test_line_ends_of_telnet_and_windows(server: Server) -> None:
    server.serve([b"one\r", b"\ntwo\r\r\n", b"\r\n"])
    assert read(server) == ["one", "two\r", ""]


def test_what_is_no_text_does_not_end_the_job(server: Server) -> None:
    server.serve([b"\xff\xfe\n"])
    assert read(server) == ["\ufffd\ufffd"]


def test_an_epoch_takes_no_more_than_it_may(server: Server) -> None:
    server.serve([b"x\n" * 10])
    enumerator = SocketTextSource("127.0.0.1", server.port).create_enumerator(None)
    eventually(lambda: enumerator.pending_records() == 10)
    (split,) = enumerator.next_splits(1, 3)
    assert isinstance(split, Split)
    assert split.records == 3
    assert enumerator.position() == 3
    assert len(lines_of(enumerator, 4)) == 7
    enumerator.close()


def test_it_connects_again_as_often_as_it_may(server: Server) -> None:
    server.serve([b"a\n"], [b"b\n"])
    assert read(server, max_retry=1) == ["a", "b"]


def test_no_server_is_listening() -> None:
    with socket.socket() as taken:  # and nobody else can listen there, either
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
        enumerator = SocketTextSource("127.0.0.1", port).create_enumerator(None)
        eventually(enumerator.available)
        with pytest.raises(JobExecutionError, match=rf"no connection to 127\.0\.0\.1:{port}, tried 1 times"):
            enumerator.next_splits(1, 10)
        assert not enumerator.finished
        enumerator.close()


def test_closing_does_not_wait_for_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_text, "_CONNECT", 60.0)
    server.hold.clear()
    server.serve([b"a\n"])
    enumerator = SocketTextSource("127.0.0.1", server.port, max_retry=-1).create_enumerator(None)
    eventually(enumerator.available)
    enumerator.close()
    assert not any(thread.name == f"tidemill-socket-{server.port}" for thread in threading.enumerate())


def test_in_a_job(server: Server) -> None:
    server.serve([b"to be or ", b"not to be\nthat\n"])
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    words = env.socket_text_stream("127.0.0.1", server.port).flat_map(str.split)
    with words.execute_and_collect() as results:
        assert sorted(results) == ["be", "be", "not", "or", "that", "to", "to"]


def test_it_says_that_it_cannot_be_read_again() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.socket_text_stream("127.0.0.1", 9999).print()
    text = env.explain()
    assert "not replayable" in text
    assert "'Source: Socket Stream' cannot be read again" in text


@pytest.mark.parametrize(("port", "delimiter"), [(0, "\n"), (70_000, "\n"), (80, "")])
def test_what_cannot_be(port: int, delimiter: str) -> None:
    with pytest.raises(ValueError, match=r"port|delimiter"):
        SocketTextSource("127.0.0.1", port, delimiter)
