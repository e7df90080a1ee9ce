"""What commands and requests are refused with, beside the errors of the layers below."""

from __future__ import annotations

from tidemill.errors import TidemillError

__all__ = ["NotThereError"]


class NotThereError(TidemillError):
    """The job, savepoint, epoch, operator, state or key that was asked for is not there."""
