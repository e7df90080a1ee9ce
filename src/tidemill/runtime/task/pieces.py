"""Stores sections of state as a piece, which acks, manifests and snapshot indexes refer to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tidemill.checkpoint.model import Piece, SectionInfo
from tidemill.checkpoint.storage.storages import Storage
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, StateOptions
from tidemill.state.files.state_file import Section, encode_sections


@dataclass(frozen=True)
class PieceForm:
    """How pieces are stored: up to ``inline_limit`` bytes in the manifest; ``compression`` is Arrow's, or None."""

    inline_limit: int = 64 << 10
    compression: str | None = None

    @classmethod
    def of(cls, configuration: Configuration) -> PieceForm:
        """The form that a configuration specifies."""
        compressed = configuration.get(CheckpointingOptions.SNAPSHOT_COMPRESSION)
        return cls(configuration.get(StateOptions.INLINE_DELTA_SIZE), "zstd" if compressed else None)


def store_sections(
    storage: Storage, sections: list[Section], *, subtask: int, chain: str, name: str, form: PieceForm
) -> Piece | None:
    """Encode sections as one state file: inline if small, otherwise stored as ``name``; None if there are none."""
    if not sections:
        return None
    data, index = encode_sections(sections, compression=form.compression)
    infos = tuple(SectionInfo(e.operator, e.state, e.first_group, e.last_group, e.rows) for e in index)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) <= form.inline_limit:
        return Piece(subtask, chain, len(data), digest, infos, data=data)
    storage.write(name, data)
    return Piece(subtask, chain, len(data), digest, infos, file=name)
