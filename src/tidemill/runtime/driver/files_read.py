"""The paths that a source of watched files has read: its state, stored in manifests like that of any operator.

An epoch adds the paths that it reads as one state file, which is stored before the epoch runs and referenced by its
manifest: the records and the paths that were read are committed together. Background merges keep the number of state
files small, savepoints copy them, and they are removed with a source that is dropped from the program. An epoch writes
only the names of its own files, regardless of how many were read before.

A state file of an uncommitted epoch contains the files that the epoch had begun to read. A file that is read over
several epochs is in the state from the first of them on; how much of it was read is part of the source's position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.checkpoint.names import STATE, delta_name, lineage_slot, parse_delta, uid_hash
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.checkpoint.storage.storages import NotFoundError, Storage
from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.state_descriptors import ValueStateDescriptor
from tidemill.state.files.rows import DELETE, Rows
from tidemill.state.files.sections import read_rows, write_rows
from tidemill.state.files.state_file import Section, decode_sections
from tidemill.state.keyed.kinds import shape_of
from tidemill.state.keys.key_groups import GroupCache
from tidemill.state.operator.operator_state import FILES, ONLY_GROUP, OPERATOR_STATE

__all__ = [
    "FILES_STATE",
    "FilePart",
    "begun_name",
    "files_begun",
    "files_position",
    "files_read",
    "files_section",
    "is_of_files",
    "part_in",
]

#: The name of the state: the path of each file, and the epoch that read it.
FILES_STATE: Final = "__files"
#: The kind in the position of such a source.
_KIND: Final = "files"


@dataclass(frozen=True)
class FilePart:
    """The progress in a file that is read over several epochs: the rows read, of approximately ``of`` rows."""

    path: str
    rows: int
    of: int


def files_position(read: int, part: FilePart | None = None) -> dict[str, Any]:
    """The position of a source that has read this many files, the last one only partly if ``part`` is given."""
    return {"kind": _KIND, "read": read, **({} if part is None else {"part": asdict(part)})}


def part_in(position: Any) -> FilePart | None:
    """The partly read file in the position of a source, if any."""
    stored = position.get("part") if is_of_files(position) else None
    return None if stored is None else FilePart(stored["path"], stored["rows"], stored["of"])


def is_of_files(position: Any) -> bool:
    """Whether a stored position is that of a source of watched files."""
    return isinstance(position, dict) and position.get("kind") == _KIND


def files_section(uid: str, paths: Collection[str], epoch: Epoch) -> Section:
    """What an epoch adds to the state of the source with this uid."""
    shape = shape_of(ValueStateDescriptor(FILES_STATE, Types.LONG()), Types.STRING())
    shape.schema[OPERATOR_STATE] = FILES
    rows = Rows(keys=list(paths), values=[epoch] * len(paths))
    return write_rows(uid, FILES_STATE, shape, rows, GroupCache(1), f"the source with uid {uid!r}")


def files_read(storage: Storage, log: ManifestLog, manifest: Manifest, uid: str) -> set[str]:
    """The paths that the source has read as of a manifest."""
    read: set[str] = set()
    runs = committed_pieces(storage, log, manifest)
    for piece, reader in pieces_for(storage, runs, {uid}, ONLY_GROUP, ONLY_GROUP):
        if any(info.operator == uid and info.state == FILES_STATE for info in piece.sections):
            data = reader.for_groups({uid: (ONLY_GROUP, ONLY_GROUP)})
            for section in decode_sections(data, piece.file or reader.named_by, {uid}, states={FILES_STATE}):
                _apply(section, read)
    return read


def begun_name(lineage: str, epoch: Epoch, uid: str, attempt: str) -> str:
    """The name of the state file with what an epoch adds to the state of a source."""
    return delta_name(lineage, epoch, _owner(uid), 0, attempt)


def files_begun(storage: Storage, manifest: Manifest, uid: str) -> Iterator[str]:
    """The paths that earlier drivers had begun to read in the epoch after a manifest, without committing it."""
    owner, own = uid_hash(_owner(uid)), lineage_slot(manifest.lineage)
    for name in storage.list(STATE):
        delta = parse_delta(name)
        if delta is None or delta.chain_hash != owner or delta.epoch != manifest.epoch + 1:
            continue
        slot = lineage_slot(delta.lineage)
        if slot is None or own is None or slot > own:
            continue
        read: set[str] = set()
        try:
            for section in decode_sections(storage.read(name), name, {uid}, states={FILES_STATE}):
                _apply(section, read)
        except NotFoundError:
            continue  # another driver that is still running has deleted it
        yield from sorted(read)


def _apply(section: Section, read: set[str]) -> None:
    rows = read_rows(section)
    if not rows.ops or DELETE not in rows.ops:
        read.update(rows.keys)
        return
    for key, op in zip(rows.keys, rows.ops, strict=True):
        if op == DELETE:
            read.discard(key)
        else:
            read.add(key)


def _owner(uid: str) -> str:
    """Distinguishes the files of a source from the states of its chain, which has the uid of the source."""
    return f"{uid} files"
