"""What exceptions say, and who may see it."""

from __future__ import annotations

from typing import Final

from tidemill.config.redaction import redacted
from tidemill.ops.rest.guard import Grant

__all__ = ["HIDDEN", "message_for"]

#: Stands where a message would be.
HIDDEN: Final = "what it says may hold users' data, which this token may not see: use the one of rest.operate-token"


def message_for(grant: Grant, message: str) -> str:
    """What an exception says, for who may operate; without secrets.

    A function puts into its exceptions what it likes: ``invalid literal for int(): 'ann@example.org'``. No part of such
    a text is known to be no record, so to see it takes what it takes to see state.
    """
    return redacted(message) if grant >= Grant.OPERATE else HIDDEN
