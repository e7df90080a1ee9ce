"""Fits times of last access when values are read from a file: adds them where missing, removes unneeded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tidemill.state.codecs.ttl import Stamped
from tidemill.state.files.rows import PUT
from tidemill.state.files.state_file import Section
from tidemill.state.files.ttl_declared import SCHEMA_KEY, stored_ttl

__all__ = ["clock_of", "fit_times", "with_counting_times"]

#: The clock of times that are no longer valid.
_FORMER: Final = "former"


def clock_of(ttl: Mapping[str, Any] | None) -> str | None:
    """The clock of a time to live by name; None without one."""
    return None if ttl is None else str(ttl["time"])


def with_counting_times(sections: Sequence[Section], clock: str | None) -> list[Section]:
    """Mark times that are no longer valid in the sections of one state, oldest first; ``clock`` is that of the program.

    ``clock`` is None without a time to live. A section with another clock, or none, is from an earlier start of the
    program. Sections older than that have times from before the clock was enabled again: they are marked as of another
    clock, and are ignored.
    """
    found: list[Section] = []
    former = False
    for section in reversed(sections):
        ttl = stored_ttl(section.schema)
        former = former or clock_of(ttl) != clock
        if former and ttl is not None:
            section = replace(section, schema={**section.schema, SCHEMA_KEY: {**ttl, "time": _FORMER}})  # noqa: PLW2901
        found.append(section)
    return found[::-1]


def fit_times(
    values: list[Any],
    ops: list[int],
    stored: Mapping[str, Any] | None,
    wanted: Mapping[str, Any] | None,
    *,
    in_lists: bool,
) -> list[Any]:
    """Convert the values of a section, stored under one time to live (or none), to the form that another one requires.

    With ``in_lists`` a value is a list of elements, each with its own time. Values without a time, or with a time by
    another clock, get the time ``since`` of ``wanted``. ``ops`` may be empty for puts only; rows with other operations
    have no value.
    """
    if stored is None and wanted is None:
        return values
    if stored is not None and wanted is not None and stored["time"] == wanted["time"]:
        return values
    if in_lists:
        return [items and _fitted(items, stored is not None, wanted) for items in values]
    if not any(ops):
        return _fitted(values, stored is not None, wanted)
    puts = iter(_fitted([v for v, op in zip(values, ops, strict=True) if op == PUT], stored is not None, wanted))
    return [next(puts) if op == PUT else None for op in ops]


def _fitted(values: list[Any], stamped: bool, wanted: Mapping[str, Any] | None) -> list[Any]:
    if stamped:
        values = [value.value for value in values]
    if wanted is None:
        return values
    since: int = wanted["since"]
    return [Stamped(value, since) for value in values]
