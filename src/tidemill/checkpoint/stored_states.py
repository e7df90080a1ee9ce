"""Determines which states a manifest contains, and how they were declared, from the indexes of its state files.

For values of undeclared types, and for classes, this information is incomplete: :func:`sections_of` reads a state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidemill.checkpoint.model import Piece, RunRef
from tidemill.checkpoint.restore import PieceReader, run_name
from tidemill.checkpoint.storage.api import Storage
from tidemill.state.files.replacing import REPLACES, is_replaced, replaced_groups, without_replaced
from tidemill.state.files.state_file import Section, decode_sections, read_index
from tidemill.state.files.state_file_index import IndexedSection
from tidemill.state.files.ttl_declared import stored_ttl
from tidemill.state.keys.key_groups import KeyGroup, key_group_spans

#: The approximate amount of a state's files that is read at a time.
_SLICE_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class StoredState:
    """One state of one operator. ``schemas`` are the distinct schemas of its sections, oldest first."""

    operator: str
    state: str
    kind: str
    schemas: tuple[dict[str, Any], ...]
    rows: int


def stored_states(
    storage: Storage, runs: Iterable[tuple[RunRef, Iterable[Piece]]]
) -> dict[tuple[str, str], StoredState]:
    """The states in the pieces of these runs, by operator and name. No value is decoded.

    Raises :class:`~tidemill.errors.CorruptFileError` for a piece that is missing or damaged.
    """
    found: dict[tuple[str, str], list[tuple[PieceReader, IndexedSection]]] = {}
    for run, pieces in runs:
        for piece in pieces:
            reader = PieceReader(storage, piece, run_name(run))
            counting = {(info.operator, info.state) for info in piece.sections}
            for section in read_index(reader.for_groups({}), _name(reader)):
                name = section.operator, section.state
                if name in counting:
                    found.setdefault(name, []).append((reader, section))
    return {name: _state(*name, sections) for name, sections in found.items()}


def sections_of(
    storage: Storage, runs: Collection[tuple[RunRef, Collection[Piece]]], operator: str, state: str, groups: int
) -> Iterator[Section]:
    """The valid sections of one state, for consecutive ranges of its ``groups`` key groups; in each, oldest first.

    Raises :class:`~tidemill.errors.CorruptFileError` for a piece that is missing or damaged.
    """
    readers = [
        PieceReader(storage, piece, run_name(run))
        for run, pieces in runs
        for piece in pieces
        if any((info.operator, info.state) == (operator, state) for info in piece.sections)
    ]
    parts = max(1, min(groups, sum(reader.piece.length for reader in readers) // _SLICE_BYTES))
    for first, last in key_group_spans(groups, parts):
        found: list[Section] = []
        for reader in readers:
            source = reader.for_groups({operator: (first, last)})
            found += decode_sections(source, _name(reader), {operator}, first, last, {state})
        yield from without_replaced(found)


def _state(operator: str, state: str, sections: list[tuple[PieceReader, IndexedSection]]) -> StoredState:
    schemas: list[dict[str, Any]] = []
    counting = _counting(operator, state, sections)
    for schema, _ in counting:
        if _declaration(schema) not in map(_declaration, schemas):
            schemas.append(schema)
    return StoredState(operator, state, sections[-1][1].kind, tuple(schemas), sum(rows for _, rows in counting))


def _counting(
    operator: str, state: str, sections: list[tuple[PieceReader, IndexedSection]]
) -> list[tuple[dict[str, Any], int]]:
    """The schema and the rows of each section that no later one replaces."""
    if any("subtasks" in section.schema.get(REPLACES, {}) for _, section in sections):
        # The index does not contain the owners of these rows, so the rows are read. Operator state is small.
        read = [
            section
            for reader in dict.fromkeys(reader for reader, _ in sections)
            for section in decode_sections(reader.read(), _name(reader), {operator}, states={state})
        ]
        return [(section.schema, section.table.num_rows) for section in without_replaced(read)]
    counting: list[tuple[dict[str, Any], int]] = []
    replaced: list[tuple[KeyGroup, KeyGroup]] = []
    for _, section in reversed(sections):
        if not is_replaced(section.groups, replaced):
            counting.append((section.schema, section.rows))
        replaced += replaced_groups(section.schema)
    return counting[::-1]


def _name(reader: PieceReader) -> str:
    return reader.piece.file or reader.named_by


def _declaration(schema: dict[str, Any]) -> tuple[Any, ...]:
    """What the program declared for the state, without the parts that change from epoch to epoch."""
    ttl = stored_ttl(schema)
    return schema.get("types"), schema.get("operator_state"), ttl and (ttl["ttl"], ttl["update"], ttl["time"])
