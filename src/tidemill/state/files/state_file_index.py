"""The index of a state file: its footer and trailer.

The format is described in :mod:`tidemill.state.files.state_file`.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidemill.errors import CorruptFileError, SerializationError
from tidemill.state.keys.key_groups import KeyGroup

__all__ = ["HEADER", "Block", "IndexedSection", "RangeReader", "as_reader", "encode_index", "read_index"]

_MAGIC = b"TMSTATE\0"
_VERSION = 1
HEADER = _MAGIC + struct.pack("<H6x", _VERSION)
_TRAILER = struct.Struct("<II8s")

# The number of bytes read from the end of a file to get the whole footer, which needs one request for most files.
_TAIL = 64 << 10


@dataclass(frozen=True)
class RangeReader:
    """A file that can be read in ranges: ``read(offset, length)`` returns exactly these bytes."""

    read: Callable[[int, int], bytes | memoryview]
    size: int


@dataclass(frozen=True)
class Block:
    """A part of the file that is one Arrow IPC stream."""

    offset: int
    length: int
    crc: int
    rows: int


@dataclass(frozen=True)
class IndexedSection:
    """The location and content of a section: ``starts[i]`` is the first row of ``groups[i]``."""

    operator: str
    state: str
    kind: str
    schema: dict[str, Any]
    rows: int
    groups: list[KeyGroup]
    starts: list[int]
    blocks: list[Block]

    @property
    def first(self) -> KeyGroup:
        return self.groups[0] if self.groups else KeyGroup(0)

    @property
    def last(self) -> KeyGroup:
        return self.groups[-1] if self.groups else KeyGroup(-1)

    def rows_of(self, first_group: KeyGroup, last_group: KeyGroup) -> tuple[int, int]:
        """The rows of these groups, as first and one past the last."""
        bounds = [*self.starts, self.rows]
        return bounds[bisect_left(self.groups, first_group)], bounds[bisect_right(self.groups, last_group)]


def as_reader(data: bytes | memoryview | RangeReader) -> RangeReader:
    """A reader of ``data``; returns ``data`` if it already is one."""
    if isinstance(data, RangeReader):
        return data
    view = memoryview(data)
    return RangeReader(lambda offset, length: view[offset : offset + length], len(view))


def encode_index(sections: list[IndexedSection]) -> bytes:
    """The footer and the trailer."""
    try:
        footer = json.dumps(
            {
                "v": _VERSION,
                "sections": [
                    {
                        "operator": s.operator,
                        "state": s.state,
                        "kind": s.kind,
                        "schema": s.schema,
                        "rows": s.rows,
                        "first": s.first,
                        "last": s.last,
                        "groups": s.groups,
                        "starts": s.starts,
                        "blocks": [[b.offset, b.length, b.crc, b.rows] for b in s.blocks],
                    }
                    for s in sections
                ],
            },
            separators=(",", ":"),
            allow_nan=False,
        ).encode()
    except (TypeError, ValueError) as error:
        raise SerializationError(f"the schema of a state is not plain JSON data: {error}") from error
    return footer + _TRAILER.pack(len(footer), _footer_crc(footer), _MAGIC)


def read_index(data: bytes | memoryview | RangeReader, name: str) -> list[IndexedSection]:
    """The sections of a state file.

    Raises :class:`CorruptFileError` unless header, footer and trailer are intact and the index describes every byte
    between them.
    """
    reader = as_reader(data)
    size = reader.size
    smallest = len(HEADER) + _TRAILER.size
    if size < smallest:
        raise CorruptFileError(f"{name}: {size} bytes are too few for a state file; was it truncated?")
    tail_at = 0 if size <= _TAIL else size - _TAIL
    tail = _read(reader, name, tail_at, size - tail_at)
    _check_header(tail[: len(HEADER)] if tail_at == 0 else _read(reader, name, 0, len(HEADER)), name)
    length, crc, magic = _TRAILER.unpack(tail[-_TRAILER.size :])
    if magic != _MAGIC:
        raise CorruptFileError(f"{name}: no end mark at offset {size - len(_MAGIC)}; was the file truncated?")
    footer_at = size - _TRAILER.size - length
    if footer_at < len(HEADER):
        raise CorruptFileError(f"{name}: the footer length {length} at offset {size - 16} does not fit the file")
    if footer_at >= tail_at:
        footer = tail[footer_at - tail_at : -_TRAILER.size]
    else:
        footer = _read(reader, name, footer_at, length)
    if _footer_crc(footer) != crc:
        raise CorruptFileError(f"{name}: the footer at offset {footer_at} does not match its checksum")
    try:
        sections = _parse(json.loads(footer))
        _check(sections, footer_at)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptFileError(f"{name}: the index at offset {footer_at} is not valid: {error!r}") from error
    return sections


def _read(reader: RangeReader, name: str, offset: int, length: int) -> bytes:
    data = bytes(reader.read(offset, length))
    if len(data) != length:
        raise CorruptFileError(f"{name}: {length} bytes expected at offset {offset}, got {len(data)}")
    return data


def _check_header(header: bytes, name: str) -> None:
    if header == HEADER:
        return
    if header[:8] != _MAGIC:
        raise CorruptFileError(f"{name}: not a state file: no magic at offset 0")
    version = int.from_bytes(header[8:10], "little")
    if version != _VERSION:
        raise CorruptFileError(f"{name}: version {version} at offset 8 cannot be read; supported is {_VERSION}")
    raise CorruptFileError(f"{name}: the header is damaged at offset 10")


def _footer_crc(footer: bytes) -> int:
    return zlib.crc32(struct.pack("<I", len(footer)), zlib.crc32(footer))


def _parse(index: Any) -> list[IndexedSection]:
    if index["v"] != _VERSION:
        raise ValueError(f"version {index['v']!r}")
    return [
        IndexedSection(
            s["operator"],
            s["state"],
            s["kind"],
            s["schema"],
            s["rows"],
            s["groups"],
            s["starts"],
            [Block(*block) for block in s["blocks"]],
        )
        for s in index["sections"]
    ]


def _check(sections: list[IndexedSection], footer_at: int) -> None:
    """Raise ``ValueError`` unless the blocks fill the file and rows and groups are consistent."""
    at = len(HEADER)
    for s in sections:
        for block in s.blocks:
            if block.offset != at or block.length < 0 or block.rows < 0:
                raise ValueError(f"a block at {block.offset} where {at} was expected")
            at += block.length
        bounds = [*s.starts, s.rows]
        ascending = all(a < b for a, b in pairwise(bounds)) and s.groups == sorted(set(s.groups))
        if sum(b.rows for b in s.blocks) != s.rows or len(s.groups) != len(s.starts) or not ascending or bounds[0] != 0:
            raise ValueError(f"rows and key groups of state {s.state!r} do not agree")
    if at != footer_at:
        raise ValueError(f"the blocks end at {at}, not at the footer")
