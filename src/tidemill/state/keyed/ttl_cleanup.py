"""Removes expired entries that are never read: walks over all committed entries of a state, a few at a time.

Entries are removed as a regular change of the epoch: the removal is part of the delta, so that files shrink too, and
takes effect only if the epoch is committed.

A completed walk knows the oldest entry that it left. No entry can expire before that one, because everything written in
the meantime is younger, so nothing is checked until then. The cleanup therefore costs nothing while nothing expires.
Also, a walk begins at least a quarter of a lifetime after the previous one. So an entry is checked a few times in its
lifetime, however often the state is accessed, and expired entries take at most about a quarter more space than live
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tidemill.state.files.ttl_declared import MAX_TIME, MIN_TIME, DeclaredTtl

if TYPE_CHECKING:
    from tidemill.state.keyed.backend import KeyedStateBackend

#: The minimum number of entries that are checked at a time: starting costs about as much as checking ten.
_HANDFUL: Final = 64
#: The maximum number of walks that begin during the lifetime of an entry.
_WALKS: Final = 4


class Sweeper:
    """Walks over the entries of one state.

    Each access adds ``per_access`` entries to the number still to be checked, each record ``per_record`` and each epoch
    ``per_epoch``. ``purge(namespace, user_key)`` removes the expired part of an entry of the current key. It reads the
    entry as the current epoch sees it, which may be younger than the committed one that was found.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        state: str,
        ttl: DeclaredTtl,
        purge: Callable[[Any, Any], None],
        *,
        per_access: int = 0,
        per_record: int = 0,
        per_epoch: int = 0,
        at_first: bool = False,
    ) -> None:
        """With ``at_first`` all entries are checked when the first epoch begins, after a restore."""
        # configuration
        self.per_access = per_access
        self._per_record = per_record
        self._per_epoch = per_epoch
        self._backend = backend
        self._state = state
        self._ttl = ttl
        self._purge = purge
        # transient
        self._owed = 0
        self._busy = False
        self._at_first = at_first
        self._round: Iterator[Any] | None = None
        self._began = self._oldest = MAX_TIME
        self._not_before = MIN_TIME
        if per_record:
            backend.context.listen(self.record)

    def access(self) -> None:
        """Account for an access to the state."""
        self._owed += self.per_access
        if self._owed >= _HANDFUL:
            self._pay()

    def record(self) -> None:
        """Account for a processed record."""
        self._owed += self._per_record
        if self._owed >= _HANDFUL:
            self._pay()

    def begin_epoch(self) -> None:
        """Account for the beginning of an epoch."""
        if self._at_first:
            self._at_first = False
            while self._round is not None or self._ttl.now() >= self._not_before:
                self._sweep(1 << 16)
        self._owed += self._per_epoch
        if self._owed:
            self._pay()

    def _pay(self) -> None:
        owed, self._owed = self._owed, 0
        if not self._busy and self._ttl.now() >= self._not_before:
            self._sweep(owed)

    def _sweep(self, limit: int) -> None:
        now = self._ttl.now()
        if self._round is None:
            self._round = self._backend.scan(self._state)
            self._began, self._oldest = now, MAX_TIME
        entries = list(islice(self._round, limit))
        expired = [
            (namespace, key, user_key) for namespace, key, user_key, stored in entries if self._look(stored, now)
        ]
        if len(entries) < limit:
            self._round = None
            millis = self._ttl.millis
            self._not_before = max(min(self._began, self._oldest) + millis, self._began + millis // _WALKS)
        if expired:
            self._remove(expired)

    def _look(self, stored: Any, now: int) -> bool:
        """Whether an entry has expired, at least in part; records the age of the part that is left."""
        if type(stored) is list:
            return sum(self._look(stamped, now) for stamped in stored) > 0
        time = stored.time
        if self._ttl.expired(time, now):
            return True
        if time < self._oldest:
            self._oldest = time
        return False

    def _remove(self, entries: list[tuple[Any, Any, Any]]) -> None:
        context = self._backend.context
        held = context.held()
        self._busy = True
        try:
            for namespace, context.key, user_key in entries:
                self._purge(namespace, user_key)
        finally:
            context.put_back(held)
            self._busy = False
