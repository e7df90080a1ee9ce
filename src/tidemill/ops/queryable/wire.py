"""The protocol of queries: frames over TCP, requests in any number on their way at once, answers in any order.

A frame is its length (u32, little endian) and as many bytes: one tuple in the form of
:mod:`tidemill.state.codecs.tagged_writer`, read without classes and without pickle. A client begins with
``("tidemill-query", 2, token)``; who does not is sent away. Then it sends requests ``(number, what, ...)``, and gets
for each ``(number, "ok", ...)``, or ``(number, code, message)`` with a code of
:data:`~tidemill.ops.queryable.errors.ERRORS`:

    get     asks with job id, name, slot, stable hashes of some keys (u64 each), list of these keys (tagged)
            is answered with epoch, slot, time or None, id of the declared schema, parts, places
    locate  asks with job id, name
            is answered with operator, state, kind, number of key groups, types (JSON), shares
    schema  asks with the id of a schema, and job id, name, stable hash
            is answered with the schema (bytes), or None if it is not known any more

``slot`` in a request is the newest that the client has seen: no answer is of an older one. All of an answer is of one
epoch. A part is ``(id of its schema, rows)``: rows are an Arrow record batch, as they are stored, whose schema a client
asks for once. ``places`` are numbers (u32): of each key how many spans of rows it has, and of each of these the number
of the part, the first row, and how many; or, in place of the number of spans, 2**32 - 1: ask for this key alone.

``shares`` are the servers that share the key groups: group g of m belongs to number ``g * shares // m``. Keys that are
asked for together should be of one of them.
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
#: Keys that may be asked for together.
MOST_KEYS: Final = 256
#: An answer holds all that one key has, at least.
LARGEST_ANSWER: Final = 64 << 20


def frame(*values: Any) -> bytes:
    """These values as a frame."""
    body = TaggedWriter().dumps(values)
    return _LENGTH.pack(len(body)) + body


def payload(body: bytes) -> tuple[Any, ...]:
    """The values of a frame. Raises :class:`QueryableStateError`."""
    try:
        values = read_plain(body)
    except SerializationError as error:
        raise QueryableStateError(f"what came over the network is no message: {error}") from error
    if not isinstance(values, tuple) or len(values) < 2:
        raise QueryableStateError("what came over the network is no message")
    return values


def hello(token: str | None) -> bytes:
    """What a client sends first."""
    return frame(_MAGIC, VERSION, token or "")


def is_hello(values: tuple[Any, ...]) -> bool:
    """Whether a client speaks this protocol."""
    return len(values) == 3 and values[:2] == (_MAGIC, VERSION) and isinstance(values[2], str)


def pack_hashes(hashes: Sequence[int]) -> bytes:
    """Stable hashes as they are sent."""
    return struct.pack(f"<{len(hashes)}Q", *hashes)


def unpack_hashes(data: bytes) -> tuple[int, ...]:
    """The inverse of :func:`pack_hashes`. Raises ValueError."""
    try:
        return struct.unpack(f"<{len(data) // 8}Q", data)
    except struct.error as error:
        raise ValueError(f"these are no hashes: {error}") from error


def share_of(hashed: int, groups: int, shares: int) -> int:
    """Which of so many servers has the group of a key, given by its hash."""
    return hashed % groups * shares // groups


def success(number: int, *values: Any) -> bytes:
    """An answer; an error in place of one that is too large."""
    answer = frame(number, "ok", *values)
    if len(answer) > LARGEST_ANSWER:
        return failure(number, QueryableStateError(f"the answer has {len(answer)} bytes; it may have {LARGEST_ANSWER}"))
    return answer


def failure(number: int, error: QueryableStateError) -> bytes:
    """The answer to a request that cannot be met."""
    return frame(number, error_code(error), str(error))


def raised(values: tuple[Any, ...]) -> QueryableStateError | None:
    """The error that an answer stands for, None if it is none."""
    if values[1] == "ok":
        return None
    return ERRORS.get(str(values[1]), QueryableStateError)(str(values[2]) if len(values) > 2 else "the query failed")


class FrameSplitter:
    """Cuts what comes over a connection into frames of at most ``largest`` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with ``data``. Raises :class:`QueryableStateError` for one that is too large,
        before anything of it is held."""
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
