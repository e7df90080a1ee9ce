"""Processing time: the time of the wall clock, without its jumps."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

log = logging.getLogger(__name__)

_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000
#: A step ahead of up to this many nanoseconds is an ordinary correction of the clock, and is followed immediately.
LARGEST_STEP: Final = 10 * _SECOND
#: The default of ``execution.clock.jump-delay``, in seconds.
JUMP_DELAY: Final = 60.0


class SmoothTime:
    """Converts readings of a wall clock and of a monotonic clock into a time that never goes back and never stops.

    All times are in nanoseconds. Three rules apply, based on the time that has passed on the monotonic clock since the
    last reading:

    1. The time follows the wall clock while it agrees with the monotonic clock, and up to :data:`LARGEST_STEP` ahead of
       it.
    2. If the wall clock is further ahead, it has jumped. The time continues at the pace of the monotonic clock until
       the jump has lasted ``jump_delay``. Then the jump counts as a correction, and the time follows it. A jump that is
       reverted earlier has no effect.
    3. If the wall clock is behind, the time continues at half the pace of the monotonic clock until the wall clock has
       caught up. That takes twice the difference. The minimum would be the difference itself, with a clock that stops
       in the meantime.

    >>> time = SmoothTime(jump_delay=60 * 10**9)
    >>> seconds = [(1000, 0), (1001, 1), (4602, 2), (1003, 3), (503, 4), (504, 5)]
    >>> [time.read(wall * 10**9, steady * 10**9) / 10**9 for wall, steady in seconds]
    [1000.0, 1001.0, 1002.0, 1003.0, 1003.5, 1004.0]
    """

    def __init__(self, jump_delay: int) -> None:
        # configuration
        self._jump_delay = jump_delay
        # transient
        self._now: int | None = None
        self._steady = 0
        self._ahead_since: int | None = None
        self._reported_behind = False

    def resume(self, at: int, wall: int, steady: int) -> None:
        """Continue from ``at``, the time that an earlier driver reached by its own clock, if that is later than now."""
        now = self.read(wall, steady)
        self._now = max(now, at)

    def read(self, wall: int, steady: int) -> int:
        """The processing time for these readings of both clocks."""
        if self._now is None:
            self._now, self._steady = wall, steady
            return wall
        passed = max(0, steady - self._steady)
        self._steady = steady
        expected = self._now + passed
        if wall > expected + LARGEST_STEP:
            self._now = self._after_jump(wall, steady, expected)
        else:
            if self._ahead_since is not None:
                self._ahead_since = None
                log.warning("the wall clock has jumped back; processing time had not followed the jump ahead")
            self._now = max(wall, self._now + passed // 2) if wall < expected else wall
        self._report_behind(wall)
        return self._now

    def _after_jump(self, wall: int, steady: int, expected: int) -> int:
        difference = _shown(wall - expected)
        if self._ahead_since is None:
            self._ahead_since = steady
            log.warning(
                "the wall clock has jumped ahead by %s. Processing time continues without it, and follows if the jump "
                "lasts %s (execution.clock.jump-delay)",
                difference,
                _shown(self._jump_delay),
            )
        if steady - self._ahead_since < self._jump_delay:
            return expected
        self._ahead_since = None
        log.warning("processing time follows the wall clock, which is ahead by %s", difference)
        return wall

    def _report_behind(self, wall: int) -> None:
        behind = (self._now or 0) - wall
        if behind > LARGEST_STEP and not self._reported_behind:
            self._reported_behind = True
            log.warning(
                "the wall clock is behind processing time by %s: it has jumped back, or it was ahead when the job last "
                "ran. Processing time advances at half the pace until they agree, in about %s",
                _shown(behind),
                _shown(2 * behind),
            )
        elif behind <= 0 and self._reported_behind:
            self._reported_behind = False
            log.warning("processing time agrees with the wall clock again")


class ProcessingClock:
    """The processing time of one job in this process, over all its attempts. Thread-safe.

    >>> clock = ProcessingClock()
    >>> clock() <= clock()
    True
    """

    def __init__(
        self,
        jump_delay: float = JUMP_DELAY,
        *,
        wall: Callable[[], int] | None = None,
        steady: Callable[[], int] | None = None,
    ) -> None:
        """``jump_delay`` is in seconds; ``wall`` and ``steady`` return nanoseconds, by default of this machine."""
        self._wall = _wall if wall is None else wall
        self._steady = _steady if steady is None else steady
        self._lock = threading.Lock()
        self._time = SmoothTime(int(jump_delay * _SECOND))

    def __call__(self) -> int:
        with self._lock:
            return self._time.read(self._wall(), self._steady()) // _MS

    def resume(self, at: int) -> None:
        """Continue from the time that the job has reached, in milliseconds, if that is later than now."""
        with self._lock:
            self._time.resume(at * _MS, self._wall(), self._steady())


def _wall() -> int:
    return time.time_ns()


def _steady() -> int:
    """Nanoseconds of a monotonic clock: if available, one that also counts the time while the machine is suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)


def _shown(nanos: int) -> str:
    seconds = nanos / _SECOND
    return str(timedelta(seconds=round(seconds))) if seconds >= 1 else f"{seconds:.3f} s"
