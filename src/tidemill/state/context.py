"""The current key of a keyed operator: set by the operator for each record, read by every state of that operator."""

from __future__ import annotations

from typing import Any, NoReturn

from tidemill.errors import StateError


class KeyContext:
    """Holds the current key in a slot that is *absent* while there is none.

    Reading an absent slot ends in ``__getattr__``, which raises the clear error; so the check costs nothing per record.
    """

    __slots__ = ("key", "owner")

    key: Any

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def leave(self) -> None:
        """Forget the key: from now on keyed state cannot be used."""
        if hasattr(type(self), "key"):
            try:
                object.__delattr__(self, "key")
            except AttributeError:
                return

    def __getattr__(self, name: str) -> NoReturn:
        if name == "key":
            raise StateError(
                f"keyed state of {self.owner} was used while no record was being processed. "
                "Register states in open(), but read and write them only in the processing methods or in on_timer()."
            )
        raise AttributeError(name)
