"""One committed epoch as it can be queried: which states there are, and the rows of a key. Never changes.

A lookup goes through the sections of a state from the newest to the oldest, and no further than one that settles what
the key has: a value, a whole list, a cleared map. The rows it finds are handed out as they are stored, oldest first;
who asked puts them together (:mod:`tidemill.ops.queryable.answer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidemill.checkpoint.model import Manifest, Piece, RunRef
from tidemill.checkpoint.restore import PieceReader, run_name
from tidemill.checkpoint.storage_api import Storage
from tidemill.errors import CorruptFileError
from tidemill.ops.queryable.answer import Answer, Part, PartSchema
from tidemill.ops.queryable.blocks import BlockCache, BlockId, IndexedBlock
from tidemill.ops.queryable.errors import UnknownStateNameError
from tidemill.state.replacing import replaced_groups
from tidemill.state.sections import QUERYABLE
from tidemill.state.state_file import read_block, read_index
from tidemill.state.state_file_index import Block, IndexedSection, as_reader
from tidemill.state.tables import APPEND, CLEAR
from tidemill.state.ttl_declared import MAX_TIME, MIN_TIME, stored_ttl

__all__ = ["PieceIndexes", "QueryableState", "View", "view_of"]


class PieceIndexes:
    """The indexes of the pieces of one manifest; those of the last one are not read again."""

    def __init__(self) -> None:
        self._known: dict[str, list[IndexedSection]] = {}
        self._used: dict[str, list[IndexedSection]] = {}

    def sections(self, reader: PieceReader) -> list[IndexedSection]:
        """The sections of a piece that count."""
        sha256 = reader.piece.sha256
        found = self._known.get(sha256)
        if found is None:
            found = read_index(reader.for_groups({}), reader.piece.file or reader.named_by)
        self._used[sha256] = found
        counting = {(info.operator, info.state) for info in reader.piece.sections}
        return [section for section in found if (section.operator, section.state) in counting]

    def forget_others(self) -> None:
        """Forget the pieces that were not asked for since this was last called."""
        self._known, self._used = self._used, {}


@dataclass(frozen=True)
class PlacedSection:
    """A section of a queryable state, and the piece it is in."""

    reader: PieceReader
    section: IndexedSection

    def blocks(self, group: int) -> list[Block]:
        """The blocks that hold rows of a key group."""
        first, last = self.section.rows_of(group, group)
        found, start = [], 0
        for block in self.section.blocks:
            if start < last and start + block.rows > first:
                found.append(block)
            start += block.rows
        return found if first < last else []

    def block(self, block: Block, cache: BlockCache, *, load: bool) -> IndexedBlock:
        """A block, from the cache or, if it may be loaded, from storage."""

        def read() -> IndexedBlock:
            name = self.reader.piece.file or self.reader.named_by
            table, section = read_block(as_reader(self.reader.for_groups({})), name, block), self.section
            schema = PartSchema(section.operator, section.state, section.kind, section.schema, table.schema)
            return IndexedBlock(table, schema)

        return cache.get(BlockId(self.reader.piece.sha256, block.offset), read if load else None)


@dataclass
class QueryableState:
    """A state that can be queried; ``sections`` are those of the epoch, newest first."""

    name: str
    operator: str
    state: str
    max_parallelism: int
    watermark: int
    sections: list[PlacedSection]
    _of_group: dict[int, list[tuple[PlacedSection, list[Block], bool]]] = field(default_factory=dict, repr=False)

    @cached_property
    def declared(self) -> PartSchema:
        """What the newest section says of the state."""
        section = self.sections[0].section
        return PartSchema(self.operator, self.state, section.kind, section.schema, pa.schema([]))

    @property
    def kind(self) -> str:
        """How the state was declared."""
        newest = self.sections[0].section
        return str(newest.schema.get("types", {}).get("kind", newest.kind))

    @property
    def types(self) -> Mapping[str, Any]:
        """The declared types, as a snapshot."""
        found: Mapping[str, Any] = self.sections[0].section.schema.get("types", {})
        return found

    def parts(self, group: int, key: Any, cache: BlockCache, *, load: bool) -> list[Part]:
        """The rows that tell what a key (in plain form) has, oldest first."""
        kind = self.sections[0].section.kind
        found: list[Part] = []
        for placed, blocks, last in self._sections_of(group):
            settled = last
            if placed.section.kind != kind:
                continue
            for block in reversed(blocks):
                indexed = placed.block(block, cache, load=load)
                rows = indexed.rows_of(key)
                if rows:
                    found.append(indexed.part(rows))
                    settled = settled or kind == "value" or _settles(kind, indexed.ops(rows))
            if settled:
                break
        return found[::-1]

    def time(self, now: int) -> int | None:
        """The time by which entries have expired; None if they do not, or if expired ones are shown."""
        schema = self.sections[0].section.schema
        ttl = stored_ttl(schema)
        if ttl is None or schema[QUERYABLE].get("expired"):
            return None
        if ttl["time"] == "ProcessingTime":
            return now
        return self.watermark if MIN_TIME < self.watermark < MAX_TIME else None

    def _sections_of(self, group: int) -> list[tuple[PlacedSection, list[Block], bool]]:
        """The sections with rows of a group, newest first; with the last one that counts, whether it is that."""
        found = self._of_group.get(group)
        if found is None:
            found = []
            for placed in self.sections:
                replaces = any(first <= group <= last for first, last in replaced_groups(placed.section.schema))
                blocks = placed.blocks(group)
                if blocks or replaces:
                    found.append((placed, blocks, replaces))
                if replaces:
                    break
            self._of_group[group] = found
        return found


@dataclass(frozen=True)
class View:
    """The queryable states of one committed epoch by name; of a name that several states have, all of them."""

    job_id: str
    slot: int
    epoch: int
    clock: int
    states: Mapping[str, list[QueryableState]]

    def state(self, name: str) -> QueryableState:
        """The state of this name. Raises :class:`UnknownStateNameError`."""
        found = self.states.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            owners = " and ".join(sorted(f"{one.state!r} of operator {one.operator}" for one in found))
            raise UnknownStateNameError(
                f"job {self.job_id} has several states that are to be queried as {name!r}: {owners}. Give each a name "
                "of its own in set_queryable()"
            )
        known = ", ".join(sorted(map(repr, self.states))) or "none"
        raise UnknownStateNameError(
            f"job {self.job_id} has no state that is queried as {name!r} in epoch {self.epoch}; there are: {known}. A "
            "state is known when its first entry is committed"
        )

    def lookup(self, name: str, group_hash: int, key: Any, cache: BlockCache, now: int, *, load: bool) -> Answer:
        """What a state has for a key, in plain form, whose stable hash is given."""
        state = self.state(name)
        parts = state.parts(group_hash % state.max_parallelism, key, cache, load=load)
        return Answer(self.epoch, self.slot, state.time(max(now, self.clock)), state.declared, tuple(parts))


def view_of(
    storage: Storage, head: Manifest, runs: Iterable[tuple[RunRef, Iterable[Piece]]], indexes: PieceIndexes
) -> View:
    """What can be queried of a manifest; reads the indexes of pieces that are new."""
    placed: dict[tuple[str, str], list[PlacedSection]] = {}
    for run, pieces in runs:
        for piece in pieces:
            reader = PieceReader(storage, piece, run_name(run))
            for section in indexes.sections(reader):
                if section.rows or replaced_groups(section.schema):
                    placed.setdefault((section.operator, section.state), []).append(PlacedSection(reader, section))
    indexes.forget_others()
    states: dict[str, list[QueryableState]] = {}
    for (operator, state), sections in placed.items():
        described = sections[-1].section.schema.get(QUERYABLE)
        if described is None:
            continue
        if operator not in head.max_parallelism:
            raise CorruptFileError(
                f"the manifest of epoch {head.epoch} does not say how many key groups {operator} has"
            )
        marks = head.watermarks.get(operator, ())
        found = QueryableState(
            described["name"],
            operator,
            state,
            head.max_parallelism[operator],
            min(marks, default=MIN_TIME),
            sections[::-1],
        )
        states.setdefault(found.name, []).append(found)
    return View(head.job_id, head.slot, head.epoch, head.clock, states)


def _settles(kind: str, ops: list[int]) -> bool:
    """Whether these rows of a list or a map leave nothing of older ones."""
    return CLEAR in ops if kind == "map" else any(op != APPEND for op in ops)
