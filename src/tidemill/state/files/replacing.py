"""Sections that replace the content of older sections of a state, whatever its type was.

When a program migrates a state with its own function, its first epoch writes the complete state in the new type. The
section indicates this under ``replaces`` in its schema: rows of older sections are no longer valid. From then on the
old type need not be readable: neither for a merge, which has no program, nor for a later program without the migration.

The schema lists the replaced key groups, ``{"groups": [[first, last], ...]}``, or for operator state the subtasks that
wrote the rows, ``{"subtasks": [number, ...]}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tidemill.state.files.state_file import GROUP_COLUMN, Section
from tidemill.state.keys.key_groups import KeyGroup, Subtask

__all__ = [
    "REPLACES",
    "is_replaced",
    "replaced_groups",
    "replacing_groups",
    "replacing_subtasks",
    "with_replaced",
    "without_replaced",
]

#: The key in a section's schema under which it lists what it replaces.
REPLACES: Final = "replaces"


def replacing_groups(ranges: Iterable[tuple[KeyGroup, KeyGroup]]) -> dict[str, Any]:
    """The schema entry of a section that replaces these key groups."""
    return {REPLACES: {"groups": [list(span) for span in sorted(set(ranges))]}}


def replacing_subtasks(subtasks: Iterable[Subtask]) -> dict[str, Any]:
    """The schema entry of a section of operator state that replaces the rows of these subtasks."""
    return {REPLACES: {"subtasks": sorted(set(subtasks))}}


def replaced_groups(schema: Mapping[str, Any]) -> list[tuple[KeyGroup, KeyGroup]]:
    """The key groups whose older rows a section replaces, as ranges from first to last."""
    return [(first, last) for first, last in schema.get(REPLACES, {}).get("groups", ())]


def is_replaced(groups: Iterable[KeyGroup], ranges: Sequence[tuple[KeyGroup, KeyGroup]]) -> bool:
    """Whether all of these key groups are in one of the ranges."""
    return bool(ranges) and all(any(first <= group <= last for first, last in ranges) for group in groups)


def without_replaced(sections: Sequence[Section]) -> list[Section]:
    """The sections of one state, oldest first, without the rows that a later one replaces."""
    if not any(REPLACES in section.schema for section in sections):
        return list(sections)
    kept: list[Section] = []
    groups: list[tuple[KeyGroup, KeyGroup]] = []
    subtasks: set[Subtask] = set()
    for section in reversed(sections):
        left = section
        if groups or subtasks:
            gone = _within(section, groups) | _written_by(section, subtasks)
            left = section if not gone.any() else replace(section, table=section.table.filter(~gone))
        if left.table.num_rows:
            kept.append(left)
        groups += replaced_groups(section.schema)
        subtasks.update(section.schema.get(REPLACES, {}).get("subtasks", ()))
    return kept[::-1]


def with_replaced(
    schema: Mapping[str, Any], merged: Iterable[Mapping[str, Any]], groups: tuple[KeyGroup, KeyGroup] | None
) -> dict[str, Any]:
    """The schema of a merged section: it replaces what its inputs replaced, if older sections lie below.

    ``groups`` are the key groups covered by the merge; None if no older section lies below it.
    """
    plain = {name: value for name, value in schema.items() if name != REPLACES}
    found = [schema for schema in merged if REPLACES in schema]
    if groups is None or not found:
        return plain
    subtasks = {number for schema in found for number in schema[REPLACES].get("subtasks", ())}
    if subtasks:
        return {**plain, **replacing_subtasks(subtasks)}
    first, last = groups
    spans = [(max(a, first), min(b, last)) for schema in found for a, b in replaced_groups(schema)]
    inside = [(a, b) for a, b in spans if a <= b]
    return {**plain, **replacing_groups(inside)} if inside else plain


def _within(section: Section, ranges: list[tuple[KeyGroup, KeyGroup]]) -> Any:
    groups = section.table.column(GROUP_COLUMN).to_numpy()
    found = np.zeros(len(groups), dtype=bool)
    for first, last in ranges:
        found |= (groups >= first) & (groups <= last)
    return found


def _written_by(section: Section, subtasks: set[Subtask]) -> Any:
    if not subtasks:
        return np.zeros(section.table.num_rows, dtype=bool)
    return np.isin(section.table.column("key").to_numpy(), sorted(subtasks))
