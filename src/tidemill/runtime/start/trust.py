"""Decides which state a job may unpickle.

Unpickling runs code that the author of the bytes has chosen. A job trusts the directories that its own configuration
names for checkpoints and savepoints: anyone who can write there can change the job's own checkpoints anyway. The state
that a job starts from may be stored anywhere else. Nothing of it is then unpickled unless the configuration allows it,
and state that would have to be unpickled is refused before the job copies any of it. Everything else in a savepoint is
plain data.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.portable import PortableState
from tidemill.checkpoint.savepoint import METADATA
from tidemill.checkpoint.snapshot_index import decode_snapshot_index
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.checkpoint.storage.storages import storage_for
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, StateRecoveryOptions
from tidemill.errors import CorruptFileError, SerializationError, UntrustedStateError
from tidemill.runtime.time.time_states import PartitionState
from tidemill.state.codecs.plain_values import holds_pickle
from tidemill.state.files.pickled_columns import pickled_states

__all__ = ["Pickled", "check_trusted", "is_trusted", "pickle_refusal", "pickled_parts"]

#: The maximum number of pickled states that the error message names.
_NAMED: Final = 3


@dataclass(frozen=True)
class Pickled:
    """Something that would be unpickled: a description (``what``), the uid of the operator, and the file."""

    uid: str
    what: str
    file: str


def check_trusted(path: str, state: PortableState, configuration: Configuration, sinks: Collection[str]) -> None:
    """Raise :class:`UntrustedStateError` if a job would unpickle state that it does not trust.

    ``path`` is the configured path that the job starts from. ``sinks`` are the uids of the sinks whose committers
    unpickle. This function neither unpickles nor writes anything. The SHA-256 of each file guarantees that the files
    checked here are those that are read later.
    """
    if is_trusted(path, configuration):
        return
    found = list(pickled_parts(state, sinks))
    if found:
        raise UntrustedStateError(pickle_refusal(path, state.manifest, found))


def is_trusted(path: str, configuration: Configuration) -> bool:
    """Whether state at this path may be unpickled."""
    if configuration.get(StateRecoveryOptions.ALLOW_PICKLE):
        return True
    own = (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY)
    return any(_is_inside(path, place) for place in map(configuration.get, own) if place is not None)


def pickle_refusal(path: str, manifest: Manifest, found: Collection[Pickled]) -> str:
    """Why a job does not start from ``path``, and what to do."""
    named = [
        f"    {part.what} of operator {manifest.operators.get(part.uid, {}).get('name', part.uid)!r} (uid {part.uid}) "
        f"in {part.file}"
        for part in list(found)[:_NAMED]
    ]
    if len(found) > _NAMED:
        named.append(f"    and {len(found) - _NAMED} more")
    parts = "\n".join(named)
    return (
        f"{path} is not in one of the job's own directories, and these parts of it are pickled:\n{parts}\n"
        "Unpickling them runs code that the author of the files has chosen. If you trust the author, set "
        f"{StateRecoveryOptions.ALLOW_PICKLE.key}: true; or keep the job's savepoints in its "
        f"{CheckpointingOptions.SAVEPOINT_DIRECTORY.key}, which it trusts like its checkpoints. State with a declared "
        "type is not pickled"
    )


def pickled_parts(state: PortableState, sinks: Collection[str]) -> Iterator[Pickled]:
    """Everything that a job would unpickle, each state once. Reads all state files, and unpickles nothing."""
    manifest = state.manifest
    yield from _kept_by_generators(manifest)
    for uid in sorted(manifest.committables.keys() & set(sinks)):
        yield Pickled(uid, "results to be committed", METADATA)
    known: set[tuple[str, str]] = set()
    for file in state.files:
        if file.name.endswith(".tms"):
            parts = [state.read(file)]
        elif file.name.endswith(".tm"):
            pieces = decode_snapshot_index(state.read(file), file.name).pieces
            parts = [piece.data for piece in pieces if piece.data is not None]
        else:
            continue  # logs of Spark's sources, and input: text and Parquet
        for data in parts:
            for uid, name in pickled_states(data, file.name):
                if (uid, name) not in known:
                    known.add((uid, name))
                    yield Pickled(uid, f"state {_shown(name)!r}", file.name)


def _kept_by_generators(manifest: Manifest) -> Iterator[Pickled]:
    """The pickled state of user-defined watermark generators."""
    for uid, subtasks in manifest.times.items():
        kept = [PartitionState(*entry).fields for entries in subtasks for entry in entries or ()]
        try:
            if any(fields is not None and holds_pickle(base64.b64decode(fields)) for fields in kept):
                yield Pickled(uid, "the watermark generator", METADATA)
        except (ValueError, SerializationError) as error:
            raise CorruptFileError(
                f"{METADATA} is corrupt: the state of the watermark generator of the operator with uid {uid} cannot be "
                f"read: {error}"
            ) from error


def _shown(state: str) -> str:
    """The name of operator state as the program declares it; other names are unchanged."""
    return state.partition(":")[2] or state if state.startswith("__") else state


def _is_inside(path: str, directory: str) -> bool:
    inner, outer = comparable_path(path), comparable_path(directory)
    return len(outer) > 0 and inner[: len(outer)] == outer


def comparable_path(path: str) -> tuple[str, ...]:
    """A path as parts that can be compared, with links resolved.

    Empty for a URL whose path contains ``.``, ``..`` or ``%``: it may lead out of its apparent parent directory.
    """
    storage = storage_for(path)
    if isinstance(storage, LocalStorage):
        return ("file", *storage.root.resolve().parts)
    address = urlsplit(path)
    parts = [part for part in address.path.split("/") if part]
    if {".", ".."} & set(parts) or "%" in address.path:
        return ()
    return (address.scheme.lower(), address.netloc, *parts)
