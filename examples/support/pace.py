"""Compares the progress of the demo with its stream, and explains a slow machine.

The clock starts with the first committed epoch, as that of the stream does: how long Spark needs to start is not the
stream's business. A machine with too little time for the job delays its results and changes none of them. So a delay is
explained, and only a job that commits nothing for a long time counts as failed.
"""

from __future__ import annotations

import os
from typing import Final

from examples.support.payments import PARTITIONS, TICKS_PER_SECOND

PAYMENTS_PER_SECOND: Final = PARTITIONS * TICKS_PER_SECOND

#: A job catches up after a recovery within this time on a machine that is fast enough.
_USUAL_DELAY: Final = 5.0


class Pace:
    """How far the job is behind its stream. Times are those of one clock, in seconds."""

    def __init__(self, launched: float, total_records: int, stall_seconds: float) -> None:
        # configuration
        self._launched = launched
        self._total_records = total_records
        self._stall_seconds = stall_seconds
        # transient
        self._first_epoch: float | None = None
        self._last_epoch = launched
        self._reported = _USUAL_DELAY
        self._ended: float | None = None

    def committed(self, now: float) -> None:
        """Record that an epoch was committed."""
        if self._first_epoch is None:
            self._first_epoch = now
        self._last_epoch = now

    def ended(self, now: float) -> None:
        """Record that the job has ended."""
        self._ended = now

    @property
    def start_seconds(self) -> float:
        """The time from the launch to the first committed epoch."""
        return (self._first_epoch or self._launched) - self._launched

    def check(self, now: float) -> None:
        """Raise :class:`TimeoutError` if no epoch has been committed for too long."""
        if now - self._last_epoch > self._stall_seconds:
            since = "since the start" if self._first_epoch is None else "since the last one"
            raise TimeoutError(f"no epoch was committed in {now - self._last_epoch:.0f} s {since} ({machine()})")

    def new_delay(self, now: float, records: int) -> str | None:
        """A message if the job is further behind its stream than last reported: the delay has to double each time."""
        if self._first_epoch is None:
            return None
        due = min(self._total_records, int((now - self._first_epoch) * PAYMENTS_PER_SECOND))
        behind = (due - records) / PAYMENTS_PER_SECOND
        if behind < self._reported:
            return None
        self._reported = 2 * behind
        return f"{behind:.0f} s behind the stream: this machine is slow or busy ({machine()}); the job catches up later"

    def summary(self) -> str | None:
        """What to say at the end about a job that ended long after its stream, or None if it was in time."""
        if self._first_epoch is None or self._ended is None:
            return None
        took, stream = self._ended - self._first_epoch, self._total_records / PAYMENTS_PER_SECOND
        if took - stream < _USUAL_DELAY:
            return None
        return (
            f"A stream of {stream:.0f} s took {took:.0f} s, because this machine is slow or busy ({machine()}): "
            f"{self._total_records / took:,.0f} payments/s where {PAYMENTS_PER_SECOND:,} arrived. "
            "That delays results, and changes none."
        )


def machine() -> str:
    """How busy this machine is."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
