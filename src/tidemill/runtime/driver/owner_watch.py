"""Whether a driver that has nothing to do still has its job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tidemill.checkpoint.log import ManifestLog
from tidemill.errors import CheckpointError

log = logging.getLogger(__name__)


class OwnerWatch:
    """Finds out in time that another driver has taken a job over, also while no epoch is committed.

    A driver that commits finds out by that. One that waits for input, or to be started again after a failure, looks
    every ``interval`` seconds for the record with which a takeover begins. That is one request to the storage; no list
    of names is involved, which may be out of date. One watch serves all attempts of a job.
    """

    def __init__(self, interval: float = 10.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        # configuration
        self._interval = interval
        self._clock = clock
        # transient
        self._manifests: ManifestLog | None = None
        self._slot: int | None = None
        self._looked = 0.0
        self._failing = False

    def claimed(self, manifests: ManifestLog) -> None:
        """An attempt of the job has claimed it, and commits to this log."""
        self._manifests, self._slot = manifests, None

    def look(self) -> None:
        """Look, if that is due. Raises :class:`~tidemill.errors.FencedError` if the job is another driver's."""
        if self._manifests is None:
            return
        slot, now = self._manifests.head.slot, self._clock()
        if slot != self._slot:  # it has just committed
            self._slot, self._looked = slot, now
            return
        if now - self._looked < self._interval:
            return
        self._looked = now
        try:
            self._manifests.check_next_slot()
        except CheckpointError as error:
            # A storage that does not answer takes nobody's job away: it matters when there is something to commit.
            if not self._failing:
                log.warning("the job cannot be looked up in its storage for now: %s", error)
            self._failing = True
        else:
            self._failing = False
