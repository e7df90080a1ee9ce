"""Times of last access on the way from a file: given to values that have none, taken from those that need none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.state.codec_ttl import Stamped
from tidemill.state.rows import PUT

__all__ = ["fit_times"]


def fit_times(
    values: list[Any],
    ops: list[int],
    stored: Mapping[str, Any] | None,
    wanted: Mapping[str, Any] | None,
    *,
    is_list: bool,
) -> list[Any]:
    """The values of a section, stored under one time to live (or none), in the form that another (or none) asks for.

    Values without a time, or with one by another clock, get the one from which ``wanted`` counts such. ``ops`` may be
    empty for puts only; rows of other kinds have no value.
    """
    if stored is None and wanted is None:
        return values
    if stored is not None and wanted is not None and stored["time"] == wanted["time"]:
        return values
    if is_list:
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
