"""The container format of all small durable files (manifests, snapshot indexes): a JSON header and binary attachments.

Layout, all integers little-endian; version 1::

    0   8 bytes   magic, one per kind of file
    8   u16       format version of that kind, from 1
    10  u16       0
    12  u32       length h of the header
    16  u32       CRC32 of the header
    20  u32       CRC32 of bytes 0..19
    24  h bytes   header: one JSON object, ASCII; its "attachments" is a list of [length, CRC32]
    24+h          the attachments, one after the other
        end-32        SHA-256 of everything before it

The first 12 bytes and the trailing SHA-256 are the same in every version, so that an intact file of a newer version can
be distinguished from a damaged one. The SHA-256 determines whether a file is intact; the CRCs locate the damage.

Values of any type inside a header are plain JSON, except for types that JSON lacks (see :func:`to_json`). Nothing is
pickled.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.errors import CheckpointError, CorruptFileError, NewerFormatError

_PREFIX = struct.Struct("<8sHHII")
_CRC = struct.Struct("<I")
_START = _PREFIX.size + _CRC.size
_DIGEST = 32
_dump = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode

#: No header comes close to this size. It limits the effect of a forged length (lengths are also checked against the
#: file size).
MAX_HEADER = 256 * 1024 * 1024


@dataclass(frozen=True)
class Frame:
    """The parts of an intact file."""

    version: int
    header: dict[str, Any]
    attachments: tuple[bytes, ...]


def pack(magic: bytes, version: int, header: dict[str, Any], attachments: Sequence[bytes]) -> bytes:
    """The bytes of a file; equal arguments give equal bytes.

    Raises :class:`CheckpointError` for values that JSON cannot represent.
    """
    if attachments:
        header = {**header, "attachments": [[len(data), zlib.crc32(data)] for data in attachments]}
    try:
        text = _dump(header).encode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"cannot be stored as JSON: {error}") from error
    if len(text) > MAX_HEADER:
        raise CheckpointError(f"a header of {len(text)} bytes is too large; the limit is {MAX_HEADER}")
    prefix = _PREFIX.pack(magic, version, 0, len(text), zlib.crc32(text))
    parts = [prefix, _CRC.pack(zlib.crc32(prefix)), text, *attachments]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    parts.append(digest.digest())
    return b"".join(parts)


def unpack(data: bytes, magic: bytes, newest: int, name: str) -> Frame:
    """The parts of the file ``name``. Checks the following:

    1. It is long enough and begins with the magic. 2. Its SHA-256 matches. 3. Its version is not newer than ``newest``.
    4. Its lengths add up.

    Raises :class:`CorruptFileError` with the offset, if known, and :class:`NewerFormatError` for a newer version.
    """
    if data[: len(magic)] != magic[: len(data)]:
        raise CorruptFileError(f"{name} is corrupt at offset 0: it does not begin with {magic!r}")  # 1
    if len(data) < _START + _DIGEST:
        raise CorruptFileError(f"{name} is corrupt: it ends at offset {len(data)}, inside its prefix")
    if hashlib.sha256(memoryview(data)[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise CorruptFileError(f"{name} is corrupt {_locate(data)}")  # 2
    _, version, _, length, _ = _PREFIX.unpack_from(data)
    if version > newest:
        raise NewerFormatError(  # 3
            f"{name} has format version {version}; this version of Tidemill reads up to {newest}: use a newer one"
        )
    if version == 0:
        raise CorruptFileError(f"{name} is corrupt at offset 8: there is no format version 0")
    try:
        header, lengths = _parse_header(data, length)  # 4
    except ValueError as error:
        raise CorruptFileError(f"{name} is corrupt at offset {_START}: {error}") from error
    attachments = []
    offset = _START + length
    for size, _ in lengths:
        attachments.append(bytes(data[offset : offset + size]))
        offset += size
    if offset != len(data) - _DIGEST:
        raise CorruptFileError(f"{name} is corrupt: its parts end at offset {offset}, not {len(data) - _DIGEST}")
    return Frame(version, header, tuple(attachments))


def _parse_header(data: bytes, length: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The header, and the length and CRC of each attachment; every length is within the file. Raises ValueError."""
    room = len(data) - _START - _DIGEST
    if length > min(room, MAX_HEADER):
        raise ValueError(f"a header of {length} bytes does not fit into the file")
    try:
        header = json.loads(bytes(data[_START : _START + length]))
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    if type(header) is not dict:
        raise ValueError("the header is not a JSON object")
    table = header.pop("attachments", [])
    if type(table) is not list:
        raise ValueError("the attachments are not a list")
    room -= length
    for entry in table:
        if type(entry) is not list or len(entry) != 2 or type(entry[0]) is not int or type(entry[1]) is not int:
            raise ValueError("an attachment is not described by its length and CRC32")
        if not 0 <= entry[0] <= room:
            raise ValueError(f"an attachment of {entry[0]} bytes does not fit into the file")
        room -= entry[0]
    return header, [(size, crc) for size, crc in table]


def _locate(data: bytes) -> str:
    """Where a file whose SHA-256 does not match is damaged, as precisely as its CRCs allow."""
    end = len(data) - _DIGEST
    _, _, _, length, header_crc = _PREFIX.unpack_from(data)
    if zlib.crc32(data[: _PREFIX.size]) != _CRC.unpack_from(data, _PREFIX.size)[0]:
        return f"at offset 0: the prefix of {_START} bytes does not match its checksum"
    if length > len(data) - _START:
        return f"at offset {len(data)}: it ends inside its header of {length} bytes"
    if zlib.crc32(data[_START : _START + length]) != header_crc:
        return f"at offset {_START}: the header of {length} bytes does not match its checksum"
    try:
        table = json.loads(bytes(data[_START : _START + length])).get("attachments", [])
        offset = _START + length
        for number, (size, crc) in enumerate(table):
            if offset + size > len(data):
                return f"at offset {len(data)}: it ends inside attachment {number}, which has {size} bytes"
            if zlib.crc32(data[offset : offset + size]) != crc:
                return f"at offset {offset}: attachment {number} of {size} bytes does not match its checksum"
            offset += size
    except (ValueError, TypeError, AttributeError, RecursionError):
        return f"at offset {_START}: the header is not valid"
    if offset > end:
        return f"at offset {len(data)}: it ends inside its trailer"
    if offset < end:
        return f"at offset {offset + _DIGEST}: {end - offset} bytes follow its end"
    return f"at offset {end}: its SHA-256 does not match"


def to_json(value: Any, where: str) -> Any:
    """``value`` as JSON that :func:`from_json` converts back exactly, including types.

    None, bool, int, float, str, list and dict with str keys are stored directly. Everything else is a one-key object:
    ``{"$t": [...]}`` for a tuple, ``{"$b": base64}`` for bytes, ``{"$f": "nan"}`` for a float that JSON lacks, ``{"$d":
    [[key, value], ...]}`` for a dict with other keys or with a key that begins with ``$``. Any other type raises a
    :class:`CheckpointError` that names ``where``.
    """
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$f": repr(value)}
    try:
        if kind is dict:
            if all(type(key) is str and key[:1] != "$" for key in value):
                return {key: to_json(item, where) for key, item in value.items()}
            return {"$d": [[to_json(key, where), to_json(item, where)] for key, item in value.items()]}
        if kind is list:
            return [to_json(item, where) for item in value]
        if kind is tuple:
            return {"$t": [to_json(item, where) for item in value]}
        if kind is bytes:
            return {"$b": base64.b64encode(value).decode("ascii")}
    except RecursionError:
        raise CheckpointError(f"{where} is nested too deeply to be stored") from None
    raise CheckpointError(
        f"{where} contains a {kind.__module__}.{kind.__qualname__}, which cannot be stored; "
        "use None, bool, int, float, str, bytes, list, tuple and dict"
    )


def from_json(value: Any) -> Any:
    """The inverse of :func:`to_json`. Raises ValueError or TypeError for anything :func:`to_json` does not produce."""
    if type(value) is list:
        return [from_json(item) for item in value]
    if type(value) is not dict:
        return value
    tag = next(iter(value), "")
    if tag[:1] != "$":
        return {key: from_json(item) for key, item in value.items()}
    (content,) = value.values()
    if tag == "$t":
        return tuple(from_json(item) for item in content)
    if tag == "$b":
        return base64.b64decode(content, validate=True)
    if tag == "$f" and content in ("nan", "inf", "-inf"):
        return float(content)
    if tag == "$d":
        return {from_json(key): from_json(item) for key, item in content}
    raise ValueError(f"unknown tag {tag!r}")
