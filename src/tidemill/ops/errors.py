"""Errors of commands and requests, in addition to the errors of the lower layers."""

from __future__ import annotations

from tidemill.errors import TidemillError

__all__ = ["NotThereError"]


class NotThereError(TidemillError):
    """The requested job, savepoint, epoch, operator, state or key does not exist."""
