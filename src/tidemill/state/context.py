"""The current key of a keyed operator: set by the operator for each record, read by every state of that operator."""

from __future__ import annotations

from typing import Any

from tidemill.errors import StateError


class KeyContext:
    """Holds the current key in a slot. While there is none, the object is of a class whose ``key`` cannot be read.

    So the check costs nothing per record: with a key at hand this is a plain slot, which the interpreter reads without
    a call.
    """

    __slots__ = ("key", "owner")

    key: Any

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.leave()

    def leave(self) -> None:
        """Forget the key: from now on keyed state cannot be used, until a key is set."""
        self.__class__ = _NoKey


class _NoKey(KeyContext):
    """A key context outside of any record."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        raise StateError(
            f"keyed state of {self.owner} was used while no record was being processed. "
            "Register states in open(), but read and write them only in the processing methods or in on_timer()."
        )

    @key.setter
    def key(self, key: Any) -> None:
        object.__setattr__(self, "__class__", KeyContext)
        self.key = key
