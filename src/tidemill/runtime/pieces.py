"""From sections of state to a piece that an ack, a manifest or a snapshot index can name."""

from __future__ import annotations

import hashlib

from tidemill.checkpoint.model import Piece, SectionInfo
from tidemill.checkpoint.storage import Storage
from tidemill.state.state_file import Section, encode_sections


def store_sections(
    storage: Storage, sections: list[Section], *, subtask: int, chain: str, name: str, inline_limit: int
) -> Piece | None:
    """Encode sections as one state file: inline up to the limit, else stored under ``name``; None if there are none."""
    if not sections:
        return None
    data, index = encode_sections(sections)
    infos = tuple(SectionInfo(e.operator, e.state, e.first_group, e.last_group, e.rows) for e in index)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) <= inline_limit:
        return Piece(subtask, chain, len(data), digest, infos, data=data)
    storage.write(name, data)
    return Piece(subtask, chain, len(data), digest, infos, file=name)
