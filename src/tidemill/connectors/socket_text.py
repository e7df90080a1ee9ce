"""A source of text lines from a socket, for experiments and for data that may be lost.

A socket cannot be read again. When the job fails, the lines of the running epoch are lost, and so are lines that are
sent while the job is down.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.errors import JobExecutionError

__all__ = ["SocketTextSource"]

#: Seconds to wait for a connection, and between two attempts.
_CONNECT: Final = 10.0
_BETWEEN: Final = 0.5
#: The maximum number of buffered lines on the driver; while it is reached, nothing is read from the socket.
_MOST_WAITING: Final = 100_000
_CHUNK: Final = 1 << 16


class SocketTextSource(SplitSource):
    """Reads lines from a server until it closes the connection; a position is the number of lines read.

    If the connection is closed or cannot be established, the source tries to connect up to ``max_retry`` times again.
    Then the stream ends or, if there never was a connection, the job fails. -1 means to retry forever.
    """

    bounded = False
    replayable = False
    parallelism = 1
    type_info: TypeInformation = Types.STRING()

    def __init__(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> None:
        if not 0 < port < 65536:
            raise ValueError(f"{port} is not a port: ports go from 1 to 65535")
        if not delimiter:
            raise ValueError("the delimiter must not be empty")
        self.hostname = hostname
        self.port = port
        self.delimiter = delimiter
        self.max_retry = max_retry

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that connects to the server and counts lines from a position."""
        return _SocketEnumerator(self, 0 if position is None else int(position))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Return the lines that the split contains."""
        yield RecordBatch(list(split.payload))


class _SocketEnumerator(SplitEnumerator):
    """Reads in a separate thread; the job's thread consumes the buffered lines."""

    def __init__(self, source: SocketTextSource, start: int) -> None:
        # configuration
        self._source = source
        # transient
        self._read = start
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._rest = b""
        self._ended = False
        self._closed = False
        self._error: Exception | None = None
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._main, name=f"tidemill-socket-{source.port}", daemon=True)
        self._thread.start()

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        with self._changed:
            self._raise_error()
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), max(1, max_records)))]
            self._read += len(lines)
            self._changed.notify_all()
        return [Split(lines, len(lines))] if lines else []

    def position(self) -> Position:
        return self._read

    @property
    def finished(self) -> bool:
        with self._changed:
            return self._ended and self._error is None and not self._lines

    def available(self) -> bool:
        with self._changed:
            return bool(self._lines) or self._error is not None

    def pending_records(self) -> int:
        with self._changed:
            return len(self._lines)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._connection is not None:
                # Wake up the thread, which may be waiting for the next line.
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(_CONNECT)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _main(self) -> None:
        tries = 0
        connected = False
        while True:
            try:
                self._read_connection()
                connected = True
                problem: OSError | None = None
            except OSError as error:
                problem = error
            if self._closed:
                return
            tries += 1
            if 0 <= self._source.max_retry < tries:
                break
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, _BETWEEN):
                    return
        with self._changed:
            if problem is not None and not connected:
                self._error = JobExecutionError(
                    f"no connection to {self._source.hostname}:{self._source.port}, tried {tries} times: {problem}. "
                    "Is a server listening there?"
                )
            if self._rest:
                self._lines.append(self._rest.decode("utf-8", "replace"))
                self._rest = b""
            self._ended = True

    def _read_connection(self) -> None:
        """Read one connection to its end."""
        with socket.create_connection((self._source.hostname, self._source.port), timeout=_CONNECT) as connection:
            connection.settimeout(None)
            with self._changed:
                if self._closed:
                    return
                self._connection = connection
            try:
                while data := connection.recv(_CHUNK):
                    self._take(data)
            finally:
                with self._changed:
                    self._connection = None

    def _take(self, data: bytes) -> None:
        delimiter = self._source.delimiter.encode()
        *lines, self._rest = (self._rest + data).split(delimiter)
        if delimiter == b"\n":
            lines = [line.removesuffix(b"\r") for line in lines]  # as in Flink: telnet and Windows end lines with \r\n
        texts = [line.decode("utf-8", "replace") for line in lines]
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._lines) < _MOST_WAITING)
            self._lines.extend(texts)
