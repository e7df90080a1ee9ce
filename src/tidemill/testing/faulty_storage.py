"""A storage whose calls can fail, before or after they took effect, as with a remote store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidemill.checkpoint.storage.api import Names, Storage

T = TypeVar("T")


@dataclass(frozen=True)
class Fate:
    """What happens before and after one call.

    ``before`` runs first; if it raises, the call has no effect. ``after`` runs after the call took effect; if it
    raises, the caller cannot know that it did. ``leave_out`` makes a call on many names incomplete: every n-th name,
    counted from the last, is missing from the result of a list, or is not deleted by a delete, which then runs
    ``after``.
    """

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    leave_out: int = 0


#: Decides what happens to a call (create, write, read, list, exists or delete) on a name (the first name of a delete).
Oracle = Callable[[str, str], Fate | None]


class FaultyStorage(Storage):
    """Forwards all calls to ``inner``, and injects the faults that ``oracle`` returns.

    >>> from tidemill.checkpoint.storage.storages import MemoryStorage
    >>> from tidemill.errors import CheckpointError
    >>> def timeout():
    ...     raise CheckpointError("timeout")
    >>> storage = FaultyStorage(MemoryStorage(), lambda call, name: Fate(after=timeout) if call == "create" else None)
    >>> try:
    ...     storage.create("a", b"1")
    ... except CheckpointError as error:
    ...     print(error, storage.exists("a"))
    timeout True
    """

    def __init__(self, inner: Storage, oracle: Oracle) -> None:
        self._inner = inner
        self._oracle = oracle

    def create(self, name: str, data: bytes) -> None:
        self._call("create", name, lambda: self._inner.create(name, data))

    def write(self, name: str, data: bytes) -> None:
        self._call("write", name, lambda: self._inner.write(name, data))

    def read(self, name: str) -> bytes:
        return self._call("read", name, lambda: self._inner.read(name))

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self._call("read", name, lambda: self._inner.read_range(name, offset, length))

    def exists(self, name: str) -> bool:
        return self._call("exists", name, lambda: self._inner.exists(name))

    def size(self, name: str) -> int:
        return self._call("exists", name, lambda: self._inner.size(name))

    def list(self, prefix: str = "") -> Names:
        fate = self._fate("list", prefix)
        found = self._inner.list(prefix)
        if fate.leave_out:
            del found[-1 :: -fate.leave_out]
        if fate.after is not None:
            fate.after()
        return found

    def delete(self, names: Iterable[str]) -> None:
        wanted = [*names]
        fate = self._fate("delete", wanted[0] if wanted else "")
        if fate.leave_out:
            del wanted[-1 :: -fate.leave_out]
        self._inner.delete(wanted)
        if fate.after is not None:
            fate.after()

    def close(self) -> None:
        self._inner.close()

    def _fate(self, call: str, name: str) -> Fate:
        fate = self._oracle(call, name) or Fate()
        if fate.before is not None:
            fate.before()
        return fate

    def _call(self, call: str, name: str, act: Callable[[], T]) -> T:
        fate = self._fate(call, name)
        result = act()
        if fate.after is not None:
            fate.after()
        return result
