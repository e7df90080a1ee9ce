"""The index of a snapshot: the pieces that a compaction produced, and the last epoch they include.

A :mod:`~tidemill.checkpoint.frame` with magic ``TMSNAPS\\n`` and version 1. Its header has ``snapshot`` (the id),
``through`` (an epoch) and ``pieces`` as in a manifest; small pieces may be attachments of the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tidemill.checkpoint.frame import pack, unpack
from tidemill.checkpoint.manifest import decode_header, pieces_from_json, pieces_to_json
from tidemill.checkpoint.model import Epoch, Piece, RunRef
from tidemill.checkpoint.names import snapshot_index_name
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.errors import CheckpointError, CorruptFileError

MAGIC: Final = b"TMSNAPS\n"
VERSION: Final = 1


@dataclass(frozen=True)
class SnapshotIndex:
    """The result of a compaction: the merged content of all runs it read, up to epoch ``through``."""

    snapshot: str
    through: Epoch
    pieces: tuple[Piece, ...]

    def run(self) -> RunRef:
        """The entry for this snapshot in a run list."""
        return RunRef(self.through, snapshot=self.snapshot, bytes=sum(piece.length for piece in self.pieces))


def encode_snapshot_index(index: SnapshotIndex) -> bytes:
    """The bytes of an index. Raises :class:`CheckpointError` for content that could not be read back."""
    attachments: list[bytes] = []
    pieces = pieces_to_json(index.pieces, attachments)
    header = {"snapshot": index.snapshot, "through": index.through, "pieces": pieces}
    try:
        _from_header(header, tuple(attachments))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"the index of snapshot {index.snapshot} cannot be stored: {error}") from error
    return pack(MAGIC, VERSION, header, attachments)


def decode_snapshot_index(data: bytes, name: str) -> SnapshotIndex:
    """The index stored as ``data`` under ``name``. Raises as ``decode_manifest`` does."""
    frame = unpack(data, MAGIC, VERSION, name)
    return decode_header(name, lambda: _from_header(frame.header, frame.attachments))


def _from_header(header: dict[str, Any], attachments: tuple[bytes, ...]) -> SnapshotIndex:
    if header.keys() != {"snapshot", "through", "pieces"}:
        raise ValueError(f"the fields are {sorted(header)}")
    snapshot, through = header["snapshot"], header["through"]
    if type(snapshot) is not str or type(through) is not int or through < 0:
        raise TypeError("the snapshot is not a string or the epoch not a number")
    return SnapshotIndex(snapshot, Epoch(through), pieces_from_json(header["pieces"], attachments))


def write_snapshot_index(storage: Storage, index: SnapshotIndex) -> RunRef:
    """Store an index, whose files must already be stored; returns the run that a manifest may refer to from now on."""
    storage.write(snapshot_index_name(index.snapshot), encode_snapshot_index(index))
    return index.run()


def read_snapshot_index(storage: Storage, snapshot: str) -> SnapshotIndex:
    """The index of ``snapshot``. Raises :class:`CorruptFileError` if it is missing, damaged or another snapshot's."""
    name = snapshot_index_name(snapshot)
    try:
        data = storage.read(name)
    except NotFoundError as error:
        raise CorruptFileError(f"{name} is missing, but a manifest refers to it: {error}") from error
    index = decode_snapshot_index(data, name)
    if index.snapshot != snapshot:
        raise CorruptFileError(f"{name} is corrupt: it contains the index of snapshot {index.snapshot}")
    return index
