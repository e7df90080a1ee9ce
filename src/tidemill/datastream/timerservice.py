"""Access of process functions to time and timers."""

from __future__ import annotations

import abc

__all__ = ["TimerService"]


class TimerService(abc.ABC):
    """The current time and the timers of the current key.

    There is at most one timer per key, time domain and timestamp: registering it again has no effect. Times are in
    milliseconds since 1970-01-01 UTC. Timers are available only on keyed streams; the current time can be read on all
    streams.
    """

    @abc.abstractmethod
    def current_processing_time(self) -> int:
        """The current processing time. It is fixed for the duration of an epoch, so that a rerun has the same time."""

    @abc.abstractmethod
    def current_watermark(self) -> int:
        """The current watermark: no more records with a smaller or equal timestamp are expected."""

    @abc.abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key when processing time has reached ``timestamp``."""

    @abc.abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key when the watermark has reached ``timestamp``."""

    @abc.abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer of the current key. Has no effect if it does not exist."""

    @abc.abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer of the current key. Has no effect if it does not exist."""
