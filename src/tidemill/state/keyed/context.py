"""The current key of a keyed operator: set by the operator for each record, read by every state of that operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidemill.errors import StateError

#: The result of :meth:`KeyContext.held` outside of any record.
NO_KEY: Final = object()


class KeyContext:
    """Stores the current key in a slot. Without a key, the object has a class whose ``key`` cannot be read.

    So the check costs nothing per record: while there is a key, this is a plain slot, which the interpreter reads
    without a call. In the same way, only operators with listeners for each record (:meth:`listen`) pay for them.
    """

    __slots__ = ("_listeners", "key", "owner")

    key: Any

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._listeners: tuple[Callable[[], None], ...] = ()
        self.leave()

    def leave(self) -> None:
        """Remove the key: keyed state cannot be used until a key is set."""
        self.__class__ = _NoKey

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function that is called whenever a key is set."""
        self._listeners = (*self._listeners, listener)

    def held(self) -> Any:
        """The key, or ``NO_KEY``: for callers that temporarily set another key and then call :meth:`put_back`."""
        return self.key

    def put_back(self, held: Any) -> None:
        """Restore the key that :meth:`held` returned."""
        if held is NO_KEY:
            self.leave()
        else:
            self.key = held


class _NoKey(KeyContext):
    """A key context outside of any record."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        raise StateError(
            f"keyed state or timers of {self.owner} were used while no record was being processed. Register states in "
            "open(), but read and write them, and set timers, only in the processing methods or in on_timer()."
        )

    @key.setter
    def key(self, key: Any) -> None:
        object.__setattr__(self, "__class__", _HeardKey if self._listeners else KeyContext)
        self.key = key

    def held(self) -> Any:
        return NO_KEY


_SLOT: Any = KeyContext.__dict__["key"]


class _HeardKey(KeyContext):
    """A key context with listeners."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        return _SLOT.__get__(self)

    @key.setter
    def key(self, key: Any) -> None:
        _SLOT.__set__(self, key)
        for listener in self._listeners:
            listener()
