"""The checksums that Spark writes beside the entries of its logs, read without Spark.

Hadoop's local file system keeps ``.<name>.crc`` beside ``<name>``: the bytes ``crc`` and 0, the size of a chunk as a
big-endian u32, and the CRC32 of each chunk. What no manifest records yet can be judged by them alone.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Final

_MAGIC: Final = b"crc\0"
_PREFIX: Final = struct.Struct(">4sI")


def checksum_path(path: Path) -> Path:
    """Where the checksum of a file is."""
    return path.with_name(f".{path.name}.crc")


def checksum_of(data: bytes, chunk: int = 512) -> bytes:
    """The content of the checksum file of ``data``."""
    sums = [zlib.crc32(data[start : start + chunk]) for start in range(0, len(data), chunk)]
    return _PREFIX.pack(_MAGIC, chunk) + struct.pack(f">{len(sums)}I", *sums)


def is_intact(path: Path, data: bytes) -> bool | None:
    """Whether ``data`` is what Spark wrote to ``path``; None if it left no checksum."""
    try:
        stored = checksum_path(path).read_bytes()
    except FileNotFoundError:
        return None
    if len(stored) < _PREFIX.size:
        return False
    magic, chunk = _PREFIX.unpack_from(stored)
    return magic == _MAGIC and chunk > 0 and bool(data) and stored == checksum_of(data, chunk)
