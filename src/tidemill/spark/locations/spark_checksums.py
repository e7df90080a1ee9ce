"""Reads the checksums that Spark writes next to the entries of its logs, without Spark.

Hadoop's local file system stores ``.<name>.crc`` next to ``<name>``: the bytes ``crc`` and 0, the size of a chunk as a
big-endian u32, and the CRC32 of each chunk. They are the only way to verify files that no manifest records yet.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Final

_MAGIC: Final = b"crc\0"
_PREFIX: Final = struct.Struct(">4sI")


def checksum_path(path: Path) -> Path:
    """Return the path of the checksum file of a file."""
    return path.with_name(f".{path.name}.crc")


def checksum_of(data: bytes, chunk: int = 512) -> bytes:
    """Return the contents of the checksum file of ``data``."""
    sums = [zlib.crc32(data[start : start + chunk]) for start in range(0, len(data), chunk)]
    return _PREFIX.pack(_MAGIC, chunk) + struct.pack(f">{len(sums)}I", *sums)


def is_intact(path: Path, data: bytes) -> bool | None:
    """Whether ``data`` is what Spark wrote to ``path``; None if there is no checksum file."""
    try:
        stored = checksum_path(path).read_bytes()
    except FileNotFoundError:
        return None
    if len(stored) < _PREFIX.size:
        return False
    magic, chunk = _PREFIX.unpack_from(stored)
    return magic == _MAGIC and chunk > 0 and bool(data) and stored == checksum_of(data, chunk)
