"""Reads the state of a committed manifest: the only code path for every restore, cold load and rescale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import read_piece
from tidemill.checkpoint.model import Epoch, Manifest, Piece, RunRef
from tidemill.checkpoint.names import manifest_name, snapshot_index_name
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.errors import CorruptFileError
from tidemill.state.files.state_file import RangeReader
from tidemill.state.keys.key_groups import KeyGroup

T = TypeVar("T")

#: Files up to this size are read as a whole: two additional requests for the index would cost about as much.
_READ_WHOLE: Final = 1 << 20


class PieceCache:
    """A thread-safe cache of the pieces of recently read runs (manifests and snapshot indexes), which never change.

    Keyed by file name, so one cache must not be shared by two jobs. ``capacity`` counts runs; a run list has a few
    dozen.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[int, tuple[Piece, ...]]] = OrderedDict()

    def get(self, name: str) -> tuple[int, tuple[Piece, ...]] | None:
        """The epoch and the pieces read from ``name``, if they are cached."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None:
                self._entries.move_to_end(name)
            return entry

    def put(self, name: str, epoch: Epoch, pieces: tuple[Piece, ...]) -> None:
        """Cache what was read from ``name``; the least recently used entry is evicted."""
        with self._lock:
            self._entries[name] = (epoch, pieces)
            self._entries.move_to_end(name)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)


@dataclass(frozen=True)
class PieceReader:
    """Reads one piece and verifies it; cheap to create, and to send to where the piece is needed."""

    storage: Storage
    piece: Piece
    named_by: str

    def read(self) -> bytes:
        """The piece's bytes. Raises :class:`~tidemill.errors.CorruptFileError` if they are not what was written."""
        return read_piece(self.storage, self.piece, self.named_by)

    def for_groups(self, ranges: Mapping[str, tuple[KeyGroup, KeyGroup]]) -> bytes | RangeReader:
        """The piece for a reader that needs the key groups ``first`` to ``last`` of each operator in ``ranges``.

        A large file of which only a part is needed is read in ranges, each with its own checksum. Anything else is read
        as a whole, as by :meth:`read`. Raises :class:`~tidemill.errors.CorruptFileError`, immediately or when a range
        is read.
        """
        piece = self.piece
        if piece.file is None or piece.length <= _READ_WHOLE or _all_within(piece, ranges):
            return self.read()
        size = self._from_storage(self.storage.size, piece.file)
        if size != piece.length:
            raise CorruptFileError(
                f"{piece.file} (named by {self.named_by}) is corrupt at offset {min(size, piece.length)}: it has "
                f"{size} bytes, not {piece.length}"
            )
        return RangeReader(partial(self._from_storage, self.storage.read_range, piece.file), size)

    def _from_storage(self, ask: Callable[..., T], file: str, *what: int) -> T:
        try:
            return ask(file, *what)
        except NotFoundError as error:
            raise CorruptFileError(f"{file} is missing, but {self.named_by} refers to it: {error}") from error


def _all_within(piece: Piece, ranges: Mapping[str, tuple[KeyGroup, KeyGroup]]) -> bool:
    """Whether everything in the piece is needed."""
    return all(
        section.operator in ranges
        and ranges[section.operator][0] <= section.first_group
        and section.last_group <= ranges[section.operator][1]
        for section in piece.sections
    )


def run_name(run: RunRef) -> str:
    """The file that lists a run's pieces."""
    return snapshot_index_name(run.snapshot) if run.snapshot is not None else manifest_name(run.slot or 0)


def committed_pieces(
    storage: Storage, log: ManifestLog, head: Manifest, cache: PieceCache | None = None
) -> list[tuple[RunRef, list[Piece]]]:
    """The runs of a manifest with their pieces, in load order.

    The pieces list only the valid sections. State of an operator that the program no longer uses is left out, although
    the file contains it (see ``tidemill.runtime.start.upgrade.describe_operators``).

    Reads manifests and indexes only, each once, and none that are in ``cache``. Raises
    :class:`~tidemill.errors.CorruptFileError` if one is missing, damaged, or not of the epoch in the run list.
    """
    described = log.operators_of(head)
    return [(run, _counting(_pieces_of(storage, log, head, run, cache), run, described)) for run in head.runs]


def _counting(pieces: Iterable[Piece], run: RunRef, described: Mapping[str, Any]) -> list[Piece]:
    """The pieces of a run that contain state of operators that are still in use."""
    left_behind = {
        uid
        for uid, description in described.items()
        if isinstance(description, dict) and run.through <= description.get("since", 0)
    }
    if not left_behind:
        return list(pieces)
    found = []
    for piece in pieces:
        sections = tuple(section for section in piece.sections if section.operator not in left_behind)
        if len(sections) == len(piece.sections):
            found.append(piece)
        elif sections:
            found.append(replace(piece, sections=sections))
    return found


def _pieces_of(
    storage: Storage, log: ManifestLog, head: Manifest, run: RunRef, cache: PieceCache | None
) -> tuple[Piece, ...]:
    name = run_name(run)
    entry = cache.get(name) if cache is not None else None
    if entry is None:
        if run.snapshot is not None:
            index = read_snapshot_index(storage, run.snapshot)
            entry = (index.through, index.pieces)
        elif run.slot == head.slot:
            entry = (head.epoch, head.pieces)
        else:
            try:
                manifest = log.read(run.slot or 0)
            except NotFoundError as error:
                referrer = manifest_name(head.slot)
                raise CorruptFileError(f"{name} is missing, but {referrer} refers to it: {error}") from error
            entry = (manifest.epoch, manifest.pieces)
        if cache is not None:
            cache.put(name, *entry)
    epoch, pieces = entry
    if epoch != run.through:
        raise CorruptFileError(
            f"{name} is corrupt: it is of epoch {epoch}, but {manifest_name(head.slot)} refers to it for epoch "
            f"{run.through}"
        )
    return pieces


def pieces_for(
    storage: Storage,
    runs: Iterable[tuple[RunRef, Collection[Piece]]],
    operators: Collection[str],
    first_group: KeyGroup,
    last_group: KeyGroup,
) -> list[tuple[Piece, PieceReader]]:
    """The committed pieces, in load order, that contain state of ``operators`` in key groups first to last.

    Determined from the pieces' sections alone; nothing is read until a reader is used. A section with a negative first
    group is not partitioned by key (operator state): it is always included.
    """
    wanted = frozenset(operators)
    return [
        (piece, PieceReader(storage, piece, run_name(run)))
        for run, pieces in runs
        for piece in pieces
        if any(
            section.operator in wanted
            and (section.first_group < 0 or (section.first_group <= last_group and section.last_group >= first_group))
            for section in piece.sections
        )
    ]
