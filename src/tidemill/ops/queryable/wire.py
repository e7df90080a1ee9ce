"""The protocol of queries: frames over TCP, any number of requests in flight, responses in any order.

A frame is its length (u32, little endian), followed by that many bytes: one tuple in the format of
:mod:`tidemill.state.codecs.tagged_writer`, read without classes and without pickle. A client starts with
``("tidemill-query", 2, token)``; otherwise the connection is closed. Then it sends requests ``(number, what, ...)``.
The response to each is ``(number, "ok", ...)``, or ``(number, code, message)`` with a code of
:data:`~tidemill.ops.queryable.errors.ERRORS`:

    get     request: job id, name, slot, stable hashes of some keys (u64 each), list of these keys (tagged)
            response: epoch, slot, time or None, id of the declared schema, parts, places
    locate  request: job id, name
            response: operator, state, kind, number of key groups, types (JSON), shares
    schema  request: id of a schema, job id, name, stable hash
            response: the schema (bytes), or None if it is no longer known

``slot`` in a request is the newest one that the client has seen: no response is from an older one. A whole response is
from one epoch. A part is ``(id of its schema, rows)``: rows are an Arrow record batch, as they are stored, whose schema
a client requests once. ``places`` are numbers (u32): for each key the number of spans of rows, and for each span the
number of the part, the first row, and the number of rows. If the number of spans is 2**32 - 1, the key must be
requested separately.

``shares`` is the number of servers that share the key groups: group g of m belongs to number ``g * shares // m``. Keys
that are requested together should belong to the same server.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidemill.errors import SerializationError
from tidemill.ops.queryable.errors import ERRORS, QueryableStateError, error_code
from tidemill.state.codecs.plain_values import read_plain
from tidemill.state.codecs.tagged_writer import TaggedWriter

__all__ = [
    "LARGEST_ANSWER",
    "LARGEST_REQUEST",
    "MOST_KEYS",
    "FrameSplitter",
    "failure",
    "frame",
    "hello",
    "is_hello",
    "pack_hashes",
    "payload",
    "raised",
    "share_of",
    "success",
    "unpack_hashes",
]

_MAGIC: Final = "tidemill-query"
VERSION: Final = 2
_LENGTH: Final = struct.Struct("<I")
LARGEST_REQUEST: Final = 1 << 20
#: Maximum number of keys in one request.
MOST_KEYS: Final = 256
#: A response contains at least all rows of one key.
LARGEST_ANSWER: Final = 64 << 20


def frame(*values: Any) -> bytes:
    """Encode values as a frame."""
    body = TaggedWriter().dumps(values)
    return _LENGTH.pack(len(body)) + body


def payload(body: bytes) -> tuple[Any, ...]:
    """Decode the values of a frame. Raises :class:`QueryableStateError`."""
    try:
        values = read_plain(body)
    except SerializationError as error:
        raise QueryableStateError(f"received an invalid message: {error}") from error
    if not isinstance(values, tuple) or len(values) < 2:
        raise QueryableStateError("received an invalid message")
    return values


def hello(token: str | None) -> bytes:
    """Return the first frame of a client."""
    return frame(_MAGIC, VERSION, token or "")


def is_hello(values: tuple[Any, ...]) -> bool:
    """Whether the first frame of a client is that of this protocol."""
    return len(values) == 3 and values[:2] == (_MAGIC, VERSION) and isinstance(values[2], str)


def pack_hashes(hashes: Sequence[int]) -> bytes:
    """Encode stable hashes."""
    return struct.pack(f"<{len(hashes)}Q", *hashes)


def unpack_hashes(data: bytes) -> tuple[int, ...]:
    """The inverse of :func:`pack_hashes`. Raises ValueError."""
    try:
        return struct.unpack(f"<{len(data) // 8}Q", data)
    except struct.error as error:
        raise ValueError(f"invalid hashes: {error}") from error


def share_of(hashed: int, groups: int, shares: int) -> int:
    """Return the number of the server, out of ``shares``, that owns the key group of a hash."""
    return hashed % groups * shares // groups


def success(number: int, *values: Any) -> bytes:
    """Encode a response, or an error if the response is too large."""
    answer = frame(number, "ok", *values)
    if len(answer) > LARGEST_ANSWER:
        return failure(
            number, QueryableStateError(f"the response has {len(answer)} bytes; the limit is {LARGEST_ANSWER}")
        )
    return answer


def failure(number: int, error: QueryableStateError) -> bytes:
    """Encode the response to a request that failed."""
    return frame(number, error_code(error), str(error))


def raised(values: tuple[Any, ...]) -> QueryableStateError | None:
    """Return the error of a response, or None if it is not an error."""
    if values[1] == "ok":
        return None
    return ERRORS.get(str(values[1]), QueryableStateError)(str(values[2]) if len(values) > 2 else "the query failed")


class FrameSplitter:
    """Splits the data from a connection into frames of at most ``largest`` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete with ``data``.

        Raises :class:`QueryableStateError` for a frame that is too large, before any of it is buffered.
        """
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, at)
                if length > self._largest:
                    raise QueryableStateError(f"a message of {length} bytes is too large: {self._largest} are allowed")
                end = at + _LENGTH.size + length
                if end > len(self._buffer):
                    break
                body = bytes(self._buffer[at + _LENGTH.size : end])
                at = end
                yield body
        finally:
            del self._buffer[:at]
