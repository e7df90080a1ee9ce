"""The log of a driver."""

from __future__ import annotations

from typing_extensions import TypedDict


class LogLines(TypedDict):
    """Lines of a driver's log.

    ``truncated`` is whether earlier lines were omitted. ``next`` is the position of the lines that follow.
    """

    path: str
    lines: list[str]
    truncated: bool
    next: int
