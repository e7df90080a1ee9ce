"""What a job has committed, read back from its directory: every operator's state, entry by entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.checkpoint.storage.storages import storage_for
from tidemill.state.files.rows import Rows
from tidemill.state.files.sections import read_rows
from tidemill.state.files.state_file import Section, decode_sections
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP
from tidemill.state.merging import merge_sections

State = dict[tuple[str, str], dict[Any, Any]]


def job_directory(checkpoints: Path, job_id: str) -> Path:
    """Where a job keeps what it commits, below the configured directory."""
    return checkpoints / job_id


def committed_head(directory: Path) -> Manifest:
    """The last manifest of the job whose directory this is."""
    head = ManifestLog(storage_for(str(directory)), directory.name).read_head()
    assert head is not None, f"nothing is committed in {directory}"
    return head


def committed_state(directory: Path) -> State:
    """All committed entries: {(operator uid, state): {key: value}}; of a map state the value is a dict.

    Timers are entries of their queues, with the times a key waits for as a sorted list. Not for state of windows, of
    which a key has several.
    """
    sections = _merged_sections(directory)
    return {(section.operator, section.state): _entries(section.kind, read_rows(section)) for section in sections}


def committed_counts(directory: Path) -> dict[tuple[str, str], int]:
    """How many entries are committed, of all keys and windows: {(operator uid, state): entries}, without zeros."""
    counts = {
        (section.operator, section.state): len(read_rows(section).keys) for section in _merged_sections(directory)
    }
    return {state: count for state, count in counts.items() if count}


def _merged_sections(directory: Path) -> list[Section]:
    storage = storage_for(str(directory))
    log = ManifestLog(storage, directory.name)
    head = committed_head(directory)
    operators = set(head.max_parallelism)
    sections: list[Section] = []
    for piece, reader in pieces_for(storage, committed_pieces(storage, log, head), operators, FIRST_GROUP, LAST_GROUP):
        sections.extend(decode_sections(reader.read(), piece.file or reader.named_by))
    return merge_sections(sections, head.max_parallelism, keep_deletes=False)


def _entries(kind: str, rows: Rows) -> dict[Any, Any]:
    entries: dict[Any, Any] = {}
    for index, key in enumerate(rows.keys):
        if kind == "map":
            entries.setdefault(key, {})[rows.user_keys[index]] = rows.values[index]
        elif kind == "timer":
            entries[key] = sorted([*entries.get(key, []), rows.values[index]])
        else:
            assert key not in entries, f"two entries of {key!r} in a merged section"
            entries[key] = rows.values[index]
    return entries
