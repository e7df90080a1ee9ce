"""Which states a manifest holds, and how they were declared: read from the indexes of its state files alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.model import Piece, RunRef
from tidemill.checkpoint.restore import PieceReader, run_name
from tidemill.checkpoint.storage_api import Storage
from tidemill.state.replacing import REPLACES, is_replaced, replaced_groups, without_replaced
from tidemill.state.state_file import decode_sections, read_index
from tidemill.state.state_file_index import IndexedSection
from tidemill.state.ttl_declared import stored_ttl


@dataclass(frozen=True)
class StoredState:
    """One state of one operator. ``schemas`` are what its sections say of it, those that differ, oldest first."""

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
        # Whose rows these are the index does not say; operator state is small.
        read = [
            section
            for reader in dict.fromkeys(reader for reader, _ in sections)
            for section in decode_sections(reader.read(), _name(reader), {operator}, states={state})
        ]
        return [(section.schema, section.table.num_rows) for section in without_replaced(read)]
    counting: list[tuple[dict[str, Any], int]] = []
    replaced: list[tuple[int, int]] = []
    for _, section in reversed(sections):
        if not is_replaced(section.groups, replaced):
            counting.append((section.schema, section.rows))
        replaced += replaced_groups(section.schema)
    return counting[::-1]


def _name(reader: PieceReader) -> str:
    return reader.piece.file or reader.named_by


def _declaration(schema: dict[str, Any]) -> tuple[Any, ...]:
    """What a program said of the state, without what changes from epoch to epoch."""
    ttl = stored_ttl(schema)
    return schema.get("types"), schema.get("operator_state"), ttl and (ttl["ttl"], ttl["update"], ttl["time"])
