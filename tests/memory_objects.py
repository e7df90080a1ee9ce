"""An object store in this process, for stories of many requests; each of them can be the last one of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from tidemill.connectors.object_store import ObjectStore

URI: Final = "s3://bucket/out"


class MemoryObjects:
    """What all clients of :data:`URI` in this process find; it takes the place of the library, and notes requests.

    ``die_at`` is the number of a request at which the process dies, before the store receives it or ``after`` it has
    done it; from then on nothing gets through, until :meth:`revive`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[str] = []
        self.die_at: int | None = None
        self.after = False
        self.look: Callable[[], None] = lambda: None
        self._dead = False
        self._lock = threading.Lock()
        self._store = MemoryStore()
        monkeypatch.setattr(ObjectStore, "_connected", lambda client: (self._store, self))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def request(*details: Any, **more: Any) -> Any:
            with self._lock:
                self.requests.append(name)
                dies = len(self.requests) == self.die_at
                if self._dead or (dies and not self.after):
                    self._dead = True
                    raise GenericError("the process is dead")
                answer = getattr(obstore, name)(*details, **more)
                if name == "list":
                    answer = list(answer)
                self.look()
                if dies:
                    self._dead = True
                    raise GenericError("the process died, and never heard the answer")
                return answer

        return request

    def revive(self) -> None:
        """Another process continues."""
        self._dead, self.die_at = False, None

    @property
    def dead(self) -> bool:
        return self._dead

    def files(self) -> dict[str, bytes]:
        """All objects."""
        names = sorted(entry["path"] for batch in obstore.list(self._store) for entry in batch)
        return {name: bytes(obstore.get(self._store, name).bytes()) for name in names}

    def remove(self, name: str) -> None:
        """Delete an object behind the sink's back."""
        obstore.delete(self._store, name)
