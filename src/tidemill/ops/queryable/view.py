"""One committed epoch as it can be queried: which states there are, and the rows of a key. Never changes.

A lookup goes through the sections of a state from the newest to the oldest, and no further than one that settles what
the key has: a value, a whole list, a cleared map. The rows that are found for all keys of a request are handed out as
they are stored; who asked puts them together (:mod:`tidemill.ops.queryable.answer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidemill.checkpoint.model import Manifest, Piece, RunRef
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

__all__ = ["QueryableState", "View", "view_of"]


@dataclass
class QueryableState:
    """A state that can be queried; ``sections`` are those of the epoch, newest first."""

    name: str
    operator: str
    state: str
    max_parallelism: int
    watermark: int
    sections: list[PlacedSection]

    @cached_property
    def declared(self) -> PartSchema:
        """What the newest section says of the state."""
        return PartSchema.of(self.sections[0].section, pa.schema([]))

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

    def find(self, group: int, key: Any, blocks: BlocksAtHand) -> list[tuple[IndexedBlock, list[int]]]:
        """The rows that tell what a key (in plain form) has, oldest first."""
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
        """The time by which entries have expired; None if they do not, or if expired ones are shown."""
        schema = self.sections[0].section.schema
        ttl = stored_ttl(schema)
        if ttl is None or schema[QUERYABLE].get("expired"):
            return None
        if ttl["time"] == "ProcessingTime":
            return now
        return self.watermark if MIN_TIME < self.watermark < MAX_TIME else None


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

    def lookup(self, name: str, keys: Sequence[tuple[int, Any]], cache: BlockCache, now: int, *, load: bool) -> Answers:
        """What a state has for each of these keys, given by their stable hashes and in plain form.

        Of several keys those are left out with which the answer would be too large.
        """
        state = self.state(name)
        groups, blocks = state.max_parallelism, BlocksAtHand(cache, load=load)
        gathered = Gathering(several=len(keys) > 1)
        for group_hash, key in keys:
            gathered.add(state.find(group_hash % groups, key, blocks))
        return self._answers(state, now, *gathered.parts())

    def tells_nothing(self, name: str, keys: int, now: int) -> Answers:
        """An answer that leaves out so many keys."""
        return self._answers(self.state(name), now, (), (None,) * keys)

    def _answers(
        self, state: QueryableState, now: int, parts: tuple[AnswerPart, ...], places: tuple[Place | None, ...]
    ) -> Answers:
        return Answers(self.epoch, self.slot, state.time(max(now, self.clock)), state.declared, parts, places)


def view_of(
    storage: Storage, head: Manifest, runs: Iterable[tuple[RunRef, Iterable[Piece]]], indexes: PieceIndexes
) -> View:
    """What can be queried of a manifest; reads the indexes of pieces that are new."""
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
