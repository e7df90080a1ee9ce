"""What the tests of keyed state share: a backend, and the way of its state through files."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.common.typeinfo import TypeInformation
from tidemill.state.files.state_file import decode_sections, encode_sections
from tidemill.state.keyed.backend import BackendPlace, KeyedStateBackend
from tidemill.state.keyed.hashmap import HashMapBackend
from tidemill.state.keys.key_groups import KeyGroupRange, Subtask

MAX_PARALLELISM = 16


def make_backend(
    parallelism: int = 1, subtask: int = 0, key_type: TypeInformation | None = None, operator: str = "op"
) -> KeyedStateBackend:
    groups = KeyGroupRange.for_subtask(MAX_PARALLELISM, parallelism, Subtask(subtask))
    return HashMapBackend(BackendPlace(operator, f"operator {operator!r}", groups, MAX_PARALLELISM, key_type))


def commit(backend: KeyedStateBackend) -> bytes | None:
    """End an epoch as production does: the delta as a file, then the fold; then the next epoch begins."""
    sections = backend.export_delta()
    data = encode_sections(sections)[0] if sections else None
    backend.fold()
    backend.begin_epoch()
    return data


def restore(backend: KeyedStateBackend, files: Iterable[bytes]) -> KeyedStateBackend:
    """Load the part of these files that belongs to a backend's key groups."""
    for number, data in enumerate(files):
        groups = backend.groups
        for section in decode_sections(data, f"file {number}", {backend.operator}, groups.first, groups.last):
            backend.load(section)
    return backend
