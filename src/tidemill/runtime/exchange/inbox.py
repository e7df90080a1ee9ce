"""The receiving end of an exchange: reads parcels in order, and keeps the clock over all channels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from tidemill.errors import TidemillError
from tidemill.runtime.batch.records import MAX_TIME, Batch
from tidemill.runtime.exchange.column_parcels import Marks, decode_columns
from tidemill.runtime.exchange.parcels import Header, ParcelKind, decode_records, in_order
from tidemill.runtime.time.input_clock import Channel, InputClock
from tidemill.runtime.time.source_clock import SourceClock
from tidemill.runtime.time.strands import Opening


class IncompleteInputError(TidemillError):
    """A sender did not finish its epoch. This error is a consequence: the sender's failure is the cause."""


class Inbox:
    """Reads all parcels of one subtask and epoch, and passes batches and watermarks to callbacks.

    ``on_status`` is called when all channels become idle, and when one becomes active again; an epoch begins as active.

    The senders of the edges in ``dealt`` read from a source whose input is reassigned in each epoch. They share one
    event time, that of their source (:class:`SourceClock`): such an edge is one channel of the clock.

    ``senders`` contains the number of sending subtasks per edge, ``inputs`` the operator's input for each edge.
    Afterwards ``attempts`` contains, per channel, the attempt whose parcels were read. A channel that was not closed,
    or that lost a parcel, is an error.
    """

    def __init__(
        self,
        senders: dict[int, int],
        base: int,
        clock: int,
        on_batch: Callable[[int, Batch], None],
        on_watermark: Callable[[int], None],
        on_status: Callable[[bool], None] = lambda idle: None,
        dealt: Collection[int] = (),
        inputs: Mapping[int, int] | None = None,
    ) -> None:
        # configuration
        self._expected = [Channel(edge, sender) for edge, count in senders.items() for sender in range(count)]
        self._base = base
        self._on_batch = on_batch
        self._on_watermark = on_watermark
        self._on_status = on_status
        # transient
        self._sources = {edge: SourceClock() for edge in dealt}
        self._clock = InputClock(
            [channel for channel in self._expected if channel.edge not in dealt or channel.sender == 0], clock, inputs
        )
        self._received = dict.fromkeys(self._expected, 0)
        self._closed: dict[Channel, Header] = {}
        self.attempts: dict[Channel, bytes] = {}

    def read(self, parcels: Iterable[bytes]) -> Iterator[int]:
        """Process parcels in order. Yields after each, so that output can be sent."""
        opening = bool(self._sources)
        for header, payload in in_order(parcels, self._base):
            channel = Channel(header.edge, header.sender)
            known = channel in self.attempts
            self._note_attempt(channel, header)
            source = self._sources.get(header.edge)
            if header.kind is ParcelKind.OPEN and source is not None:
                source.open(header.sender, Opening.unpack(payload), header.watermark)
                continue
            if opening:
                opening = False
                self._begin_sources()
            if header.kind is ParcelKind.END:
                self._closed[channel] = header
                if source is None:
                    self._hear(channel, header, known)
                continue
            self._received[channel] += 1
            if source is None:
                self._hear(channel, header, known)
            else:
                self._advance_strand(source, header, header.watermark)
            batch, marks = decode_columns(payload) if header.kind is ParcelKind.COLUMNS else _decoded(payload)
            self._deliver(header, source, batch, marks)
            if source is not None:
                source.parcel_read(header.sender, header.strand)
                self._follow(header.edge, source)
            yield len(batch)
        self._check_complete()
        yield from self._end_sources()

    def _deliver(self, header: Header, source: SourceClock | None, batch: Batch, marks: Marks) -> None:
        if not len(batch):
            return  # sent only for its header
        start = 0
        for position, watermark in marks:
            if position > start:
                self._on_batch(header.edge, batch.slice(start, position))
                start = position
            if source is None:
                self._advance(Channel(header.edge, header.sender), watermark)
            else:
                self._advance_strand(source, header, watermark)
        if start == 0:
            self._on_batch(header.edge, batch)
        elif start < len(batch):
            self._on_batch(header.edge, batch.slice(start, len(batch)))

    def _begin_sources(self) -> None:
        """Start the clocks of the sources: all strands of all senders are known."""
        for edge, source in self._sources.items():
            source.begin()
            if source.begun and source.idle:
                self._turn(partial(self._clock.begin_idle, Channel(edge, 0), source.time))
            else:
                self._follow(edge, source)

    def _advance_strand(self, source: SourceClock, header: Header, watermark: int) -> None:
        source.advance(header.sender, header.strand, watermark)
        self._follow(header.edge, source)

    def _follow(self, edge: int, source: SourceClock) -> None:
        """Update the clock after the event time or the idleness of a source may have changed."""
        if not source.begun:
            return
        channel = Channel(edge, 0)
        self._advance(channel, source.time)
        if source.idle and not self._clock.is_idle(channel):
            self._turn(partial(self._clock.set_idle, channel, True))

    def _end_sources(self) -> Iterator[int]:
        """Use the highest watermark of the senders for a source without event time, and at the end of input."""
        for edge, source in self._sources.items():
            furthest = max(header.watermark for channel, header in self._closed.items() if channel.edge == edge)
            if furthest == MAX_TIME or not source.begun:
                self._wake(Channel(edge, 0))
                self._advance(Channel(edge, 0), furthest)
                yield 0

    def _wake(self, channel: Channel) -> None:
        if self._clock.is_idle(channel):
            self._turn(partial(self._clock.set_idle, channel, False))

    def _hear(self, channel: Channel, header: Header, known: bool) -> None:
        """Apply the header of a parcel to its channel. A watermark counts if the channel is active when it arrives."""
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
        """Change the status of a channel, which may change that of the whole input."""
        was_idle = self._clock.idle
        moved = change()
        if was_idle:
            self._on_status(False)
        if moved is not None:
            self._on_watermark(moved)
        if self._clock.idle:
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
            if self._closed[channel].seq != self._received[channel]:
                raise TidemillError(
                    f"{channel} announced {self._closed[channel].seq} parcels, but {self._received[channel]} arrived"
                )


def _decoded(payload: bytes | memoryview) -> tuple[Batch, Marks]:
    values, timestamps, keys, marks = decode_records(payload)
    return Batch(values, timestamps, keys), marks or ()
