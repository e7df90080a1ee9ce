"""The storage interface: the only I/O of the checkpoint layer.

Names are relative; the data stored under a name never changes. Every implementation gives the same guarantees and
passes the same tests (``tests/contract/test_storage.py``):

- ``create`` and ``write`` are all or nothing: no reader ever sees partial data, and the data is durable once the call
  has returned.
- ``create`` lets exactly one of several concurrent writers win. When it raises :class:`AlreadyExistsError`, the
  existing data is durable.
- Any other :class:`CheckpointError` from ``create`` leaves the outcome unknown: the name may exist. Call it again, or
  read the name.
- Every I/O failure is a :class:`CheckpointError` that names the file and the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from tidemill.checkpoint.names import check_name
from tidemill.errors import CheckpointError

#: An alias, because ``list`` is a method inside the classes.
Names = list[str]


class AlreadyExistsError(CheckpointError):
    """A name that may be created only once already exists."""


class NotFoundError(CheckpointError):
    """Nothing is stored under the name."""


class Storage(ABC):
    """A flat, durable mapping from relative names to immutable bytes. Safe to use from several threads."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> None:
        """Store ``data`` under a name that must not exist yet; atomic and durable on return.

        Raises :class:`AlreadyExistsError` if the name exists, regardless of who created it.
        """

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Store ``data`` under a name that no other writer uses (it contains a uuid); atomic and durable on return."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """All bytes stored under ``name``. Raises :class:`NotFoundError`."""

    @abstractmethod
    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """At most ``length`` bytes from ``offset``; fewer where the file ends. Raises :class:`NotFoundError`."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether something is stored under ``name``."""

    @abstractmethod
    def list(self, prefix: str = "") -> Names:
        """All names that begin with ``prefix``, sorted; with or without names written or deleted concurrently."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Delete in the given order; missing names are ignored. Stops at the first failure."""

    @abstractmethod
    def size(self, name: str) -> int:
        """The number of bytes stored under ``name``. Raises :class:`NotFoundError`."""

    def close(self) -> None:
        """Release connections. Nothing durable depends on it."""


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it can begin a safe name, else raise :class:`CheckpointError`."""
    if prefix:
        check_name(prefix + "x")
    return prefix


def check_range(name: str, offset: int, length: int) -> None:
    """Raise :class:`CheckpointError` for a negative offset or length."""
    if offset < 0 or length < 0:
        raise CheckpointError(f"cannot read {length} bytes at offset {offset} of {name}: both must be 0 or more")
