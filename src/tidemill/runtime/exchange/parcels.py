"""Parcels, which cross an exchange: each is a whole batch of records, serialized once, with a small fixed header.

A header contains the edge, the sending subtask and attempt, the position in the channel, and the channel's watermark at
the start of the parcel. The engine sees only bytes and a 64-bit sort key, never a record. A subtask that reads several
parts of a source sends each as a separate channel, a strand (:mod:`tidemill.runtime.time.strands`).

A subtask must read the parcels of a channel in the order in which they were sent, and should read channels in parallel
as event time progresses. The engine sorts by ``order`` (31 bits, in the upper half of the sort key): a coarse, monotone
measure of watermark progress, then the sequence number, then the channel, each truncated to a few bits. Truncation
causes ties, but never a wrong order within a channel; :func:`in_order` resolves ties with the full header. The order
across channels only affects how long records wait for each other, because the clock of an operator is the minimum over
its channels.
"""

from __future__ import annotations

import enum
import io
import pickle
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidemill.datastream.functions.pickling import pickled_by_value
from tidemill.errors import SerializationError, TidemillError

_VERSION: Final = 2
# version, kind, target level, edge, target, sender, strand, seq, part, parts, watermark, attempt
_HEADER: Final = struct.Struct("<BBHHIIHIHHq16s")
HEADER_SIZE: Final = _HEADER.size
_IDLE: Final = 0x80

#: Built-in types whose instances are pickled without a reference to a class: pickle's memo only costs time for them.
_PLAIN: Final = frozenset({tuple, list, dict, int, str, float, bytes, bool, type(None)})

#: Bits of the order: watermark bucket, sequence number, channel. 31 in total, so that the sort key stays positive.
_WATERMARK_BITS: Final = 8
_SEQ_BITS: Final = 12
_CHANNEL_BITS: Final = 11
_LAST_ORDER: Final = 2**31 - 1
#: The channels of adjacent senders differ by one, those of adjacent strands by this number: collisions are rare.
_STRAND_STEP: Final = 61


class ParcelKind(enum.IntEnum):
    """DATA and COLUMNS contain records; END closes a channel for the epoch; ACK is sent to the driver.

    OPEN is read before all others: it contains the strands of a sender.
    """

    DATA = 0
    COLUMNS = 1
    END = 2
    ACK = 3
    OPEN = 4

    @property
    def carries_records(self) -> bool:
        return self <= ParcelKind.COLUMNS


@dataclass(frozen=True)
class Header:
    """The fixed part of a parcel; ``target`` is a partition of ``level``. The upper bit of the kind is ``idle``."""

    kind: ParcelKind
    level: int
    edge: int
    target: int
    sender: int
    seq: int
    watermark: int
    attempt: bytes
    part: int = 0
    parts: int = 1
    #: Whether the sender is idle, so that receivers do not wait for its watermark.
    idle: bool = False
    strand: int = 0

    def pack(self) -> bytes:
        return _HEADER.pack(
            _VERSION,
            self.kind | _IDLE if self.idle else self.kind,
            self.level,
            self.edge,
            self.target,
            self.sender,
            self.strand,
            self.seq,
            self.part,
            self.parts,
            self.watermark,
            self.attempt,
        )

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        fields = _HEADER.unpack_from(data)
        version, kind, level, edge, target, sender, strand, seq, part, parts, watermark, attempt = fields
        if version != _VERSION:
            raise TidemillError(
                f"a parcel of format version {version} was read by a worker that supports version {_VERSION}: "
                "driver and executors must run the same version of Tidemill"
            )
        is_idle = kind >= _IDLE
        if is_idle:
            kind -= _IDLE
        return cls(ParcelKind(kind), level, edge, target, sender, seq, watermark, attempt, part, parts, is_idle, strand)


def watermark_bucket(watermark: int, base: int) -> int:
    """Return a coarse measure of progress since ``base`` in 8 bits: the bit length of the difference, and its next two
    bits."""
    ahead = watermark - base
    if ahead <= 0:
        return 0
    length = ahead.bit_length()
    fraction = (ahead >> (length - 3)) & 3 if length >= 3 else 0
    return min((length << 2) | fraction, (1 << _WATERMARK_BITS) - 1)


def order_of(header: Header, base: int) -> int:
    """Return the upper half of the sort key of a parcel, given the common watermark base of the epoch."""
    if not header.kind.carries_records:
        return 0 if header.kind is ParcelKind.OPEN else _LAST_ORDER
    seq = min(header.seq, (1 << _SEQ_BITS) - 1)
    channel = (header.sender + _STRAND_STEP * header.strand) & ((1 << _CHANNEL_BITS) - 1)
    order = ((watermark_bucket(header.watermark, base) << _SEQ_BITS | seq) << _CHANNEL_BITS) | channel
    return min(order, _LAST_ORDER - 1)


def encode_records(values: list[Any], timestamps: Any, keys: Any, marks: Any) -> bytes:
    """Serialize a batch once.

    Without pickle's memo, plain records take a third of the time. Instances of classes need the memo, or each would
    repeat the name of its class. Classes of the user's main script are in no importable module: only cloudpickle can
    send them.
    """
    content = (values, timestamps, keys, marks)
    try:
        if not values or type(values[0]) in _PLAIN:
            try:
                buffer = io.BytesIO()
                pickler = pickle.Pickler(buffer, 5)
                pickler.fast = True
                pickler.dump(content)
                return buffer.getvalue()
            # A record that contains itself. KeyError: without the memo, CPython miscounts the depth of frozensets, and
            # fails after 50 of them.
            except (ValueError, RecursionError, KeyError):
                return pickle.dumps(content, 5)
        return pickle.dumps(content, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _by_value(content)


def _by_value(content: tuple[Any, ...]) -> bytes:
    try:
        return pickled_by_value(content)
    except Exception as error:
        kinds = sorted({type(value).__qualname__ for value in content[0]})
        raise SerializationError(
            f"a record of type {' or '.join(kinds[:5])} cannot be sent to another task "
            f"({type(error).__name__}: {error}). Records that cross an exchange must be picklable."
        ) from error


def decode_records(data: bytes | memoryview) -> tuple[list[Any], list[int] | None, list[Any] | None, Any]:
    """The inverse of :func:`encode_records`. Parcels come only from workers of the same job and epoch."""
    content: tuple[list[Any], list[int] | None, list[Any] | None, Any] = pickle.loads(data)
    return content


def split(header: Header, payload: bytes, limit: int) -> Iterator[bytes]:
    """Return the parcel as bytes, in several parts if the payload exceeds the limit."""
    if len(payload) <= limit:
        yield header.pack() + payload
        return
    # Parts are counted with 16 bits: if 65 535 parts are not enough, the parts are larger.
    limit = max(limit, -(-len(payload) // 0xFFFF))
    starts = range(0, len(payload), limit)
    for part, start in enumerate(starts):
        packed = Header(**{**header.__dict__, "part": part, "parts": len(starts)}).pack()
        yield packed + payload[start : start + limit]


def in_order(parcels: Iterable[bytes], base: int) -> Iterator[tuple[Header, bytes | memoryview]]:
    """Resolve ties of the engine's sort, and reassemble parcels that were split.

    Expects parcels sorted by :func:`order_of`; yields (header, payload) in one deterministic order.
    """
    tied: list[tuple[Header, bytes]] = []
    current = -1
    for parcel in parcels:
        header = Header.unpack(parcel)
        order = order_of(header, base)
        if order != current:
            yield from _settle(tied)
            tied, current = [], order
        tied.append((header, parcel))
    yield from _settle(tied)


def _settle(tied: list[tuple[Header, bytes]]) -> Iterator[tuple[Header, bytes | memoryview]]:
    if len(tied) > 1:
        tied.sort(key=_full_order)
    parts: list[bytes] = []
    for header, parcel in tied:
        if header.parts == 1:
            yield header, memoryview(parcel)[HEADER_SIZE:]
            continue
        if header.part != len(parts):
            raise TidemillError(f"part {len(parts)} of {header.parts} of a parcel from {header.sender} is missing")
        parts.append(parcel[HEADER_SIZE:])
        if header.part == header.parts - 1:
            yield header, b"".join(parts)
            parts = []


def _full_order(item: tuple[Header, bytes]) -> tuple[int, ...]:
    header = item[0]
    last = -1 if header.kind is ParcelKind.OPEN else 0 if header.kind.carries_records else header.kind
    return (last, header.watermark, header.edge, header.sender, header.strand, header.seq, header.part)
