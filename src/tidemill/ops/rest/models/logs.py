"""What a driver has printed."""

from __future__ import annotations

from typing_extensions import TypedDict


class LogLines(TypedDict):
    """Lines of a driver's log. ``truncated``: there are lines before them; ``next``: where those that follow begin."""

    path: str
    lines: list[str]
    truncated: bool
    next: int
