"""The receiving end of an exchange: parcels in order, the clock over all channels, and who sent what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.columns import decode_columns
from tidemill.runtime.parcels import Header, Kind, decode_records, in_order
from tidemill.runtime.records import MIN_TIME, Batch


class IncompleteInputError(TidemillError):
    """A sender did not finish its epoch: its own failure is the cause, this is the consequence."""


@dataclass(frozen=True)
class Channel:
    """One sending subtask of one edge."""

    edge: int
    sender: int


class InputClock:
    """The clock of an operator: the minimum over its active input channels, never going back.

    A channel that was idle counts again from when it is active. Where all are idle nobody is waited for: the clock goes
    to the greatest of their watermarks, whichever of them went idle last.
    """

    def __init__(self, channels: Iterable[Channel], current: int) -> None:
        self._channels = dict.fromkeys(channels, MIN_TIME)
        self._idle: set[Channel] = set()
        self.current = current

    @property
    def idle(self) -> bool:
        """Whether all channels are."""
        return len(self._idle) == len(self._channels)

    def is_idle(self, channel: Channel) -> bool:
        """Whether a channel is."""
        return channel in self._idle

    def advance(self, channel: Channel, watermark: int) -> int | None:
        """A channel's time moved on; the new time of the operator if that moved too."""
        before = self._channels[channel]
        if watermark <= before:
            return None
        self._channels[channel] = watermark
        if before > self.current or channel in self._idle:
            return None  # another channel holds the clock back
        return self._moved()

    def set_idle(self, channel: Channel, idle: bool) -> int | None:
        """A channel has no records for now, or has some again; the new time of the operator if that moved too."""
        if idle:
            self._idle.add(channel)
        else:
            self._idle.discard(channel)
        return self._moved()

    def _moved(self) -> int | None:
        if not self._idle:
            time = min(self._channels.values())
        elif self.idle:
            time = max(self._channels.values())
        else:
            time = min(time for channel, time in self._channels.items() if channel not in self._idle)
        if time <= self.current:
            return None
        self.current = time
        return time


class Inbox:
    """Reads all parcels of one subtask and epoch, calling back with batches and with the advance of time.

    ``on_status`` is told when all channels are idle, and when that is over; an epoch begins as active.

    ``senders`` gives the number of sending subtasks per edge. Afterwards ``attempts`` tells, per channel, the attempt
    whose parcels were read. A channel that was not closed, or that lost a parcel, is an error.
    """

    def __init__(
        self,
        senders: dict[int, int],
        base: int,
        clock: int,
        on_batch: Callable[[int, Batch], None],
        on_watermark: Callable[[int], None],
        on_status: Callable[[bool], None] = lambda idle: None,
    ) -> None:
        # configuration
        self._expected = [Channel(edge, sender) for edge, count in senders.items() for sender in range(count)]
        self._base = base
        self._on_batch = on_batch
        self._on_watermark = on_watermark
        self._on_status = on_status
        # transient
        self._clock = InputClock(self._expected, clock)
        self._received = dict.fromkeys(self._expected, 0)
        self._closed: dict[Channel, int] = {}
        self.attempts: dict[Channel, bytes] = {}

    def read(self, parcels: Iterable[bytes]) -> Iterator[int]:
        """Process parcels in order; yields after each, so that output can be drained."""
        for header, payload in in_order(parcels, self._base):
            channel = Channel(header.edge, header.sender)
            self._note_attempt(channel, header)
            if header.kind is Kind.END:
                self._closed[channel] = header.seq
                self._hear(channel, header)
                continue
            self._received[channel] += 1
            self._hear(channel, header)
            if header.kind is Kind.COLUMNS:
                for batch in decode_columns(payload):
                    self._on_batch(channel.edge, batch)
                    yield len(batch)
            else:
                yield self._deliver(channel, *decode_records(payload))
        self._check_complete()

    def _deliver(
        self,
        channel: Channel,
        values: list[Any],
        timestamps: list[int] | None,
        keys: list[Any] | None,
        marks: list[tuple[int, int]] | None,
    ) -> int:
        if not values:
            return 0  # it came for what its header says
        start = 0
        for position, watermark in marks or ():
            if position > start:
                self._on_batch(channel.edge, _slice(values, timestamps, keys, start, position))
                start = position
            self._advance(channel, watermark)
        if start == 0:
            self._on_batch(channel.edge, Batch(values, timestamps, keys))
        elif start < len(values):
            self._on_batch(channel.edge, _slice(values, timestamps, keys, start, len(values)))
        return len(values)

    def _hear(self, channel: Channel, header: Header) -> None:
        clock = self._clock
        self._advance(channel, header.watermark)
        if header.idle == clock.is_idle(channel):
            return
        was_idle = clock.idle
        moved = clock.set_idle(channel, header.idle)
        if was_idle:
            self._on_status(False)
        if moved is not None:
            self._on_watermark(moved)
        if clock.idle:
            self._on_status(True)

    def _advance(self, channel: Channel, watermark: int) -> None:
        moved = self._clock.advance(channel, watermark)
        if moved is not None:
            self._on_watermark(moved)

    def _note_attempt(self, channel: Channel, header: Header) -> None:
        if channel not in self._received:
            raise TidemillError(f"a parcel of the unknown channel {channel} was received: the job plan does not match")
        known = self.attempts.setdefault(channel, header.attempt)
        if known != header.attempt:
            raise TidemillError(f"parcels of two attempts were mixed in {channel}")

    def _check_complete(self) -> None:
        for channel in self._expected:
            if channel not in self._closed:
                raise IncompleteInputError(f"subtask {channel.sender} of edge {channel.edge} did not finish its epoch")
            if self._closed[channel] != self._received[channel]:
                raise TidemillError(
                    f"{channel} announced {self._closed[channel]} parcels, but {self._received[channel]} arrived"
                )


def _slice(values: list[Any], timestamps: list[int] | None, keys: list[Any] | None, start: int, stop: int) -> Batch:
    return Batch(
        values[start:stop],
        None if timestamps is None else timestamps[start:stop],
        None if keys is None else keys[start:stop],
    )
