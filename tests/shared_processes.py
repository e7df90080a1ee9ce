"""Processes that outlive a test module on purpose: what the tests of a process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_shared: list[Callable[[], set[int]]] = []


@contextmanager
def outliving(pids: Callable[[], set[int]]) -> Iterator[None]:
    """While the block runs, these processes may run on when a module is over; the function is called each time."""
    _shared.append(pids)
    try:
        yield
    finally:
        _shared.remove(pids)


def shared_pids() -> set[int]:
    """All of them."""
    return {pid for pids in _shared for pid in pids()}
