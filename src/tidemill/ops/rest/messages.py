"""Messages of exceptions, and which clients may see them."""

from __future__ import annotations

from typing import Final

from tidemill.config.redaction import redacted
from tidemill.ops.rest.guard import Grant

__all__ = ["HIDDEN", "message_for"]

#: Replaces a message that the client may not see.
HIDDEN: Final = "the message may contain user data, which this token may not read: use the token of rest.operate-token"


def message_for(grant: Grant, message: str) -> str:
    """Return the message of an exception without secrets if the client may operate, otherwise a placeholder.

    The message of a user function's exception can contain records: ``invalid literal for int(): 'ann@example.org'``.
    Any part of it may be user data, so reading it requires the same permission as reading state.
    """
    return redacted(message) if grant >= Grant.OPERATE else HIDDEN
