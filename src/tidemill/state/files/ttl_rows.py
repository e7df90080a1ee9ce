"""Times of last access on the way from a file: given to values that have none, taken from those that need none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tidemill.state.codecs.ttl import Stamped
from tidemill.state.files.rows import PUT
from tidemill.state.files.state_file import Section
from tidemill.state.files.ttl_declared import SCHEMA_KEY, stored_ttl

__all__ = ["clock_of", "fit_times", "with_counting_times"]

#: The clock of times that do not count any more.
_FORMER: Final = "former"


def clock_of(ttl: Mapping[str, Any] | None) -> str | None:
    """The clock of a time to live by name; None without one."""
    return None if ttl is None else str(ttl["time"])


def with_counting_times(sections: Sequence[Section], clock: str | None) -> list[Section]:
    """The sections of one state, oldest first, for a program in which its time to live goes by a clock (None: no ttl).

    A section under another clock, or none, is of an earlier start of the program. What is older than that has times
    from before the clock was turned on again: they are marked as of another clock, and do not count.
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
    """The values of a section, stored under one time to live (or none), in the form that another (or none) asks for.

    With ``in_lists`` a value is a list of elements, and each of them has a time. Values without a time, or with one by
    another clock, get the one from which ``wanted`` counts such. ``ops`` may be empty for puts only; rows of other
    kinds have no value.
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
