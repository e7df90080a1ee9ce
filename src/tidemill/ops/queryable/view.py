"""An immutable view of one committed epoch for queries: its queryable states, and the rows of a key.

A lookup reads the sections of a state from the newest to the oldest, until a row determines the state of the key: a
value, a whole list, a cleared map. The rows of all keys of a request are returned as they are stored, and the client
merges them (:mod:`tidemill.ops.queryable.answer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidemill.checkpoint.model import Epoch, Manifest, Piece, RunRef
from tidemill.checkpoint.restore import PieceReader, run_name
from tidemill.checkpoint.storage.api import Storage
from tidemill.errors import CorruptFileError
from tidemill.ops.queryable.answer import AnswerPart, Answers, PartSchema, Place
from tidemill.ops.queryable.blocks import BlockCache, IndexedBlock
from tidemill.ops.queryable.errors import UnknownStateNameError
from tidemill.ops.queryable.gathering import Gathering
from tidemill.ops.queryable.placed import BlocksAtHand, PieceIndexes, PlacedSection
from tidemill.state.files.sections import QUERYABLE
from tidemill.state.files.ttl_declared import MAX_TIME, MIN_TIME, stored_ttl
from tidemill.state.keys.key_groups import KeyGroup

__all__ = ["QueryableState", "View", "view_of"]


@dataclass
class QueryableState:
    """A queryable state; ``sections`` are those of the epoch, newest first."""

    name: str
    operator: str
    state: str
    max_parallelism: int
    watermark: int
    sections: list[PlacedSection]

    @cached_property
    def declared(self) -> PartSchema:
        """The description of the state in the newest section."""
        return PartSchema.of(self.sections[0].section, pa.schema([]))

    @property
    def kind(self) -> str:
        """The declared kind of the state."""
        newest = self.sections[0].section
        return str(newest.schema.get("types", {}).get("kind", newest.kind))

    @property
    def types(self) -> Mapping[str, Any]:
        """The declared types, as a snapshot."""
        found: Mapping[str, Any] = self.sections[0].section.schema.get("types", {})
        return found

    def find(self, group: KeyGroup, key: Any, blocks: BlocksAtHand) -> list[tuple[IndexedBlock, list[int]]]:
        """Return the rows that determine the state of a key (in plain form), oldest first."""
        kind = self.declared.section_kind
        found: list[tuple[IndexedBlock, list[int]]] = []
        for placed in self.sections:
            numbers, settled = placed.groups.of(group)
            if placed.section.kind == kind.name:
                for number in numbers:
                    block = blocks.get(placed.blocks[number])
                    rows = block.rows_of(key)
                    if rows:
                        found.append((block, rows))
                        settled = settled or kind.is_single or kind.settles(block.ops(rows))
            if settled:
                break
        found.reverse()
        return found

    def time(self, now: int) -> int | None:
        """Return the current time for expiration, or None if entries do not expire or expired ones are visible."""
        schema = self.sections[0].section.schema
        ttl = stored_ttl(schema)
        if ttl is None or schema[QUERYABLE].get("expired"):
            return None
        if ttl["time"] == "ProcessingTime":
            return now
        return self.watermark if MIN_TIME < self.watermark < MAX_TIME else None


@dataclass(frozen=True)
class View:
    """The queryable states of one committed epoch by name. Several states may have the same name."""

    job_id: str
    slot: int
    epoch: Epoch
    clock: int
    states: Mapping[str, list[QueryableState]]

    def state(self, name: str) -> QueryableState:
        """Return the state with this name. Raises :class:`UnknownStateNameError`."""
        found = self.states.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            owners = " and ".join(sorted(f"{one.state!r} of operator {one.operator}" for one in found))
            raise UnknownStateNameError(
                f"job {self.job_id} has several states with the queryable name {name!r}: {owners}. Use a different "
                "name for each in set_queryable()"
            )
        known = ", ".join(sorted(map(repr, self.states))) or "none"
        raise UnknownStateNameError(
            f"job {self.job_id} has no state with the queryable name {name!r} in epoch {self.epoch}; available names: "
            f"{known}. A state is available when its first entry has been committed"
        )

    def lookup(self, name: str, keys: Sequence[tuple[int, Any]], cache: BlockCache, now: int, *, load: bool) -> Answers:
        """Look up keys, given by their stable hashes and in plain form.

        If there are several keys, those that would make the answer too large are omitted.
        """
        state = self.state(name)
        groups, blocks = state.max_parallelism, BlocksAtHand(cache, load=load)
        gathered = Gathering(several=len(keys) > 1)
        for group_hash, key in keys:
            gathered.add(state.find(KeyGroup(group_hash % groups), key, blocks))
        return self._answers(state, now, *gathered.parts())

    def tells_nothing(self, name: str, keys: int, now: int) -> Answers:
        """Return an answer that omits all of this number of keys."""
        return self._answers(self.state(name), now, (), (None,) * keys)

    def _answers(
        self, state: QueryableState, now: int, parts: tuple[AnswerPart, ...], places: tuple[Place | None, ...]
    ) -> Answers:
        return Answers(self.epoch, self.slot, state.time(max(now, self.clock)), state.declared, parts, places)


def view_of(
    storage: Storage, head: Manifest, runs: Iterable[tuple[RunRef, Iterable[Piece]]], indexes: PieceIndexes
) -> View:
    """Create the view of a manifest. Reads the indexes of new pieces."""
    placed: dict[tuple[str, str], list[PlacedSection]] = {}
    for run, pieces in runs:
        for piece in pieces:
            reader = PieceReader(storage, piece, run_name(run))
            for groups in indexes.sections(reader):
                section = groups.section
                if section.rows or groups.replaced:
                    placed.setdefault((section.operator, section.state), []).append(PlacedSection(reader, groups))
    indexes.forget_others()
    states: dict[str, list[QueryableState]] = {}
    for (operator, state), sections in placed.items():
        described = sections[-1].section.schema.get(QUERYABLE)
        if described is None:
            continue
        if operator not in head.max_parallelism:
            raise CorruptFileError(
                f"the manifest of epoch {head.epoch} does not contain the number of key groups of {operator}"
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
