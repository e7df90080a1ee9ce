"""What a process function can ask of time."""

from __future__ import annotations

import abc

__all__ = ["TimerService"]


class TimerService(abc.ABC):
    """Clocks and timers of the current key.

    There is at most one timer per key, clock and timestamp: registering it again changes nothing. Times are
    milliseconds since 1970-01-01 UTC. Timers exist only on keyed streams; the clocks can be read everywhere.
    """

    @abc.abstractmethod
    def current_processing_time(self) -> int:
        """The processing-time clock; it is fixed for the length of an epoch, so that a re-run sees the same time."""

    @abc.abstractmethod
    def current_watermark(self) -> int:
        """The event-time clock: no record with a smaller or equal timestamp is expected any more."""

    @abc.abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key once the processing-time clock has reached ``timestamp``."""

    @abc.abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key once the watermark has reached ``timestamp``."""

    @abc.abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Take a processing-time timer of the current key back; without effect if there is none."""

    @abc.abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Take an event-time timer of the current key back; without effect if there is none."""
