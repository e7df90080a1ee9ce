"""Checks whether an idle driver still owns its job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tidemill.checkpoint.log import ManifestLog
from tidemill.errors import CheckpointError

log = logging.getLogger(__name__)


class OwnerWatch:
    """Detects that another driver has taken over a job, even while no epoch is committed.

    A driver that commits detects this with the commit. A driver that waits for input, or for a restart after a failure,
    checks every ``interval`` seconds for the record with which a takeover begins. That is one request to the storage.
    It does not list names, because a listing may be out of date. One watch serves all executions of a job.
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
        """Watch this log: an execution of the job has claimed the job, and commits to it."""
        self._manifests, self._slot = manifests, None

    def look(self) -> None:
        """Check if a check is due. Raises :class:`~tidemill.errors.FencedError` if another driver owns the job."""
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
            # A storage that does not respond does not mean a takeover. The next commit reports the problem.
            if not self._failing:
                log.warning("the owner of the job cannot be checked in its storage at the moment: %s", error)
            self._failing = True
        else:
            self._failing = False
