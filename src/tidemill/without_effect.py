"""Settings and methods of PyFlink that have nothing to do in Tidemill: they accept their arguments, and say so once."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["without_effect"]

log = logging.getLogger(__name__)

_said: Final[set[str]] = set()


def without_effect(name: str, reason: str) -> None:
    """Log once per process that ``name`` has no effect, and why.

    The docstring of a method that calls this begins with "Accepted without effect": ``docs/porting.md`` shows it so.
    """
    if name not in _said:
        _said.add(name)
        log.warning("%s has no effect: %s", name, reason)
