"""The receiving end of an exchange: parcels in order, the clock over all channels, and who sent what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.columns import decode_columns
from tidemill.runtime.input_clock import Channel, InputClock
from tidemill.runtime.parcels import Header, Kind, decode_records, in_order
from tidemill.runtime.records import Batch


class IncompleteInputError(TidemillError):
    """A sender did not finish its epoch: its own failure is the cause, this is the consequence."""


class Inbox:
    """Reads all parcels of one subtask and epoch, calling back with batches and with the advance of time.

    ``on_status`` is told when all channels are idle, and when that is over; an epoch begins as active.

    The senders of the edges in ``one_clock`` have one event time, since what they read is dealt out to them anew in
    each epoch: once all of it is here, the furthest of them tells the time of all.

    ``senders`` gives the number of sending subtasks per edge, ``inputs`` the operator's input that it goes to.
    Afterwards ``attempts`` tells, per channel, the attempt whose parcels were read. A channel that was not closed, or
    that lost a parcel, is an error.
    """

    def __init__(
        self,
        senders: dict[int, int],
        base: int,
        clock: int,
        on_batch: Callable[[int, Batch], None],
        on_watermark: Callable[[int], None],
        on_status: Callable[[bool], None] = lambda idle: None,
        one_clock: Collection[int] = (),
        inputs: Mapping[int, int] | None = None,
    ) -> None:
        # configuration
        self._expected = [Channel(edge, sender) for edge, count in senders.items() for sender in range(count)]
        self._base = base
        self._on_batch = on_batch
        self._on_watermark = on_watermark
        self._on_status = on_status
        self._one_clock = one_clock
        # transient
        self._clock = InputClock(self._expected, clock, inputs)
        self._received = dict.fromkeys(self._expected, 0)
        self._closed: dict[Channel, int] = {}
        self.attempts: dict[Channel, bytes] = {}

    def read(self, parcels: Iterable[bytes]) -> Iterator[int]:
        """Process parcels in order; yields after each, so that output can be drained."""
        for header, payload in in_order(parcels, self._base):
            channel = Channel(header.edge, header.sender)
            known = channel in self.attempts
            self._note_attempt(channel, header)
            self._hear(channel, header, known)
            if header.kind is Kind.END:
                self._closed[channel] = header.seq
                continue
            self._received[channel] += 1
            if header.kind is Kind.COLUMNS:
                for batch in decode_columns(payload):
                    self._on_batch(channel.edge, batch)
                    yield len(batch)
            else:
                yield self._deliver(channel, *decode_records(payload))
        self._check_complete()
        for edge in self._one_clock:
            self._catch_up(edge)
            yield 0

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

    def _hear(self, channel: Channel, header: Header, known: bool) -> None:
        """Take what a parcel says of its channel: a watermark counts if the channel is active when it comes."""
        clock = self._clock
        turns = header.idle != clock.is_idle(channel)
        if turns and not header.idle:
            self._turn(lambda: clock.set_idle(channel, False))
        if turns and header.idle and not known:
            self._turn(lambda: clock.begin_idle(channel, header.watermark))
            return
        self._advance(channel, header.watermark)
        if turns and header.idle:
            self._turn(lambda: clock.set_idle(channel, True))

    def _turn(self, change: Callable[[], int | None]) -> None:
        """The status of a channel changes, and with it perhaps that of the whole input."""
        was_idle = self._clock.idle
        moved = change()
        if was_idle:
            self._on_status(False)
        if moved is not None:
            self._on_watermark(moved)
        if self._clock.idle:
            self._on_status(True)

    def _catch_up(self, edge: int) -> None:
        time = self._clock.furthest(edge)
        for channel in self._expected:
            if channel.edge == edge:
                self._advance(channel, time)

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
