"""A merge of state files that runs on a worker: one task for a slice of the key groups.

``runtime/driver/snapshots.py`` decides what is merged, and divides it into slices.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.checkpoint.model import Piece
from tidemill.checkpoint.names import snapshot_file_name
from tidemill.checkpoint.restore import PieceReader
from tidemill.checkpoint.storage.storages import Storage
from tidemill.runtime.task.pieces import PieceForm, store_sections
from tidemill.state.files.state_file import Section, decode_sections
from tidemill.state.files.ttl_merge import CommittedTimes
from tidemill.state.keys.key_groups import KeyGroup
from tidemill.state.merging import merge_sections


@dataclass(frozen=True)
class Slice:
    """One task of a merge: ranges of key groups of some operators, from all runs that are merged."""

    number: int
    snapshot: str
    ranges: dict[str, tuple[KeyGroup, KeyGroup]]
    max_parallelism: dict[str, int]
    readers: tuple[PieceReader, ...]
    keep_deletes: bool
    form: PieceForm
    times: CommittedTimes | None = None


def merge_slice(storage: Storage, part: Slice) -> Piece | None:
    """Merge one slice and store it; return None if the result is empty."""
    sections: list[Section] = []
    for reader in part.readers:
        data = reader.for_groups(part.ranges)
        name = reader.piece.file or reader.named_by
        counting = {section.operator for section in reader.piece.sections}
        for operator, (first, last) in part.ranges.items():
            if operator not in counting:
                continue
            sections.extend(decode_sections(data, name, {operator}, first, last))
    merged = merge_sections(sections, part.max_parallelism, part.keep_deletes, part.times, part.ranges)
    return store_sections(
        storage,
        merged,
        subtask=part.number,
        chain="",
        name=snapshot_file_name(part.snapshot, part.number),
        form=part.form,
    )
