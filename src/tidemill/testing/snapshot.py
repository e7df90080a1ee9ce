"""The snapshot of a harness: state files in the format of checkpoints, and the clocks."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.runtime.batch.records import MIN_TIME

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Snapshot:
    """The committed state of one or all subtasks of an operator. ``bytes(snapshot)`` and ``from_bytes`` round-trip.

    ``files`` are state files, oldest first; ``watermark`` and ``clock`` are event and processing time; ``epoch`` is the
    number of the epoch after which it was taken.

    >>> Snapshot.from_bytes(bytes(Snapshot((b"one", b"two"), watermark=7, clock=3, epoch=1)))
    Snapshot(files=(b'one', b'two'), watermark=7, clock=3, epoch=1)
    """

    files: tuple[bytes, ...] = ()
    watermark: int = MIN_TIME
    clock: int = 0
    epoch: int = 0

    def __bytes__(self) -> bytes:
        header = json.dumps({"v": 1, "watermark": self.watermark, "clock": self.clock, "epoch": self.epoch}).encode()
        return b"".join(_LENGTH.pack(len(part)) + part for part in (header, *self.files))

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Restore a snapshot from the result of ``bytes()``."""
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            parts.append(bytes(data[at : at + length]))
            at += length
        header = json.loads(parts[0])
        if header["v"] != 1:
            raise ValueError(f"a snapshot of version {header['v']} cannot be read, only of version 1")
        return cls(tuple(parts[1:]), header["watermark"], header["clock"], header["epoch"])

    @classmethod
    def of_all(cls, snapshots: Iterable[Snapshot]) -> Snapshot:
        """Combine the snapshots of all subtasks of one operator, to restore a rescaled subtask.

        Event time goes back to that of the slowest subtask, as after a restore with another parallelism in production.
        """
        parts = list(snapshots)
        files = tuple(file for part in parts for file in part.files)
        watermark, clock = min(part.watermark for part in parts), max(part.clock for part in parts)
        return cls(files, watermark, clock, max(part.epoch for part in parts))
