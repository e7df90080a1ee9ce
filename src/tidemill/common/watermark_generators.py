"""Watermark generators: how event time advances with the records of one source split."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tidemill.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE

__all__ = [
    "AscendingTimestampsWatermarks",
    "BoundedOutOfOrdernessWatermarks",
    "NoWatermarksGenerator",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarksWithIdleness",
]

Clock = Callable[[], int]


@dataclass(frozen=True, order=True, slots=True)
class Watermark:
    """Declares that no more records with a timestamp up to and including ``timestamp`` will arrive.

    >>> Watermark(5) < Watermark.MAX_WATERMARK
    True
    """

    timestamp: int

    MAX_WATERMARK: ClassVar[Watermark]
    UNINITIALIZED: ClassVar[Watermark]

    def get_timestamp(self) -> int:
        return self.timestamp


Watermark.MAX_WATERMARK = Watermark(MAX_LONG_VALUE)
Watermark.UNINITIALIZED = Watermark(MIN_LONG_VALUE)


class WatermarkOutput(ABC):
    """The output of a generator. A watermark also ends idleness; one lower than the current watermark is ignored."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Advances event time."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Marks the output idle: downstream operators do not wait for the watermark of this input."""

    @abstractmethod
    def mark_active(self) -> None:
        """Marks the output active again."""


class WatermarkGenerator(ABC):
    """Generates watermarks from records, periodically, or both.

    >>> class Punctuated(WatermarkGenerator):
    ...     def on_event(self, event, event_timestamp, output):
    ...         if event.is_marker:
    ...             output.emit_watermark(Watermark(event_timestamp))
    ...     def on_periodic_emit(self, output):
    ...         pass
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record. May emit watermarks."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called at the auto-watermark interval. May emit watermarks."""

    def on_batch(self, events: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Equivalent to calling :meth:`on_event` for each record in order.

        Generators that emit nothing in ``on_event`` may override it with a faster implementation; see
        :attr:`emits_on_event`.
        """
        on_event = self.on_event
        for event, timestamp in zip(events, timestamps, strict=True):
            on_event(event, timestamp, output)

    #: Whether :meth:`on_event` may emit. If false, a whole batch may be passed to :meth:`on_batch`; if true, there may
    #: be a watermark between any two records.
    emits_on_event: bool = True
    #: Whether the generator reads events. If false, it depends only on the newest timestamp of a batch, and
    #: :meth:`on_newest` may be called instead of :meth:`on_batch`.
    reads_events: bool = True

    def on_newest(self, timestamp: int, output: WatermarkOutput) -> None:
        """Equivalent to :meth:`on_batch` for a batch with this newest timestamp, if :attr:`reads_events` is false."""
        raise NotImplementedError(f"{type(self).__name__} reads events")


class NoWatermarksGenerator(WatermarkGenerator):
    """Emits nothing."""

    emits_on_event = False
    reads_events = False

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass

    def on_batch(self, events: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        pass

    def on_newest(self, timestamp: int, output: WatermarkOutput) -> None:
        pass


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Periodically emits the maximum timestamp so far minus the bound minus 1 ms.

    After a record with timestamp *t*, no record older than *t - bound* is expected, but records with exactly
    *t - bound* may still arrive.
    """

    emits_on_event = False
    reads_events = False

    def __init__(self, max_out_of_orderness_millis: int) -> None:
        if max_out_of_orderness_millis < 0:
            raise ValueError(f"the bound of out-of-orderness must not be negative: {max_out_of_orderness_millis} ms")
        self._delay = max_out_of_orderness_millis
        # The watermark before the first record is then exactly the minimum, without underflow.
        self._max_timestamp = MIN_LONG_VALUE + max_out_of_orderness_millis + 1

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp > self._max_timestamp:
            self._max_timestamp = event_timestamp

    def on_batch(self, events: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        self.on_newest(max(timestamps, default=self._max_timestamp), output)

    def on_newest(self, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(self._max_timestamp - self._delay - 1))


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """For timestamps that never decrease within a split: emits the maximum timestamp minus 1 ms."""

    def __init__(self) -> None:
        super().__init__(0)


class WatermarksWithIdleness(WatermarkGenerator):
    """Marks its output idle when no record has arrived for longer than ``idle_timeout_millis``.

    As in Flink, the time without records is measured between calls of :meth:`on_periodic_emit`, starting with the first
    call that sees no new record. ``clock`` returns the processing time in milliseconds.
    """

    def __init__(self, generator: WatermarkGenerator, idle_timeout_millis: int, clock: Clock | None = None) -> None:
        if idle_timeout_millis <= 0:
            raise ValueError(f"the idle timeout must be positive: {idle_timeout_millis} ms")
        # configuration
        self._generator = generator
        self._timeout = idle_timeout_millis
        self._clock: Clock = clock or _processing_time
        self.emits_on_event = getattr(generator, "emits_on_event", True)
        self.reads_events = getattr(generator, "reads_events", True)
        # transient
        self._saw_records = False
        self._inactive_since: int | None = None
        self._idle = False

    @property
    def generator(self) -> WatermarkGenerator:
        """The wrapped generator."""
        return self._generator

    @property
    def inactive_since(self) -> int | None:
        """The processing time since which no record has arrived, or None if the output is active."""
        return self._inactive_since

    @property
    def idle_from(self) -> int | None:
        """The earliest processing time at which :meth:`on_periodic_emit` would mark the output idle."""
        if self._idle or self._inactive_since is None:
            return None
        return self._inactive_since + self._timeout + 1

    def resume(self, inactive_since: int | None, *, idle: bool) -> None:
        """Take over the state of another generator of the same split."""
        self._inactive_since = inactive_since
        self._idle = idle

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self._generator.on_event(event, event_timestamp, output)
        self._saw_records = True
        self._idle = False

    def on_batch(self, events: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        if events:
            self._generator.on_batch(events, timestamps, output)
            self._saw_records = True
            self._idle = False

    def on_newest(self, timestamp: int, output: WatermarkOutput) -> None:
        self._generator.on_newest(timestamp, output)
        self._saw_records = True
        self._idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if not self._is_idle_now():
            self._generator.on_periodic_emit(output)
        elif not self._idle:
            self._idle = True
            output.mark_idle()

    def _is_idle_now(self) -> bool:
        if self._saw_records:
            self._saw_records = False
            self._inactive_since = None
            return False
        now = self._clock()
        if self._inactive_since is None:
            self._inactive_since = now
            return False
        return now - self._inactive_since > self._timeout


def _processing_time() -> int:
    return time.time_ns() // 1_000_000
