"""The sending end of an exchange: packs the records for each target into parcels.

All work is done per batch. Watermarks are sent in band: a mark contains the number of records of the parcel after which
the watermark of the channel advanced. A sender whose input is reassigned in each epoch has a channel for each of its
strands (:mod:`tidemill.runtime.time.strands`). All other senders have only strand 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.errors import SerializationError
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.exchange.column_parcels import can_follow, encode_columns
from tidemill.runtime.exchange.parcels import Header, ParcelKind, encode_records, split
from tidemill.runtime.exchange.routes import Route
from tidemill.runtime.time.strands import Opening, PartitionEnd, SentStrand, Strand

#: The number of records of the first parcel. That of later parcels depends on the measured size of a record.
_FIRST_COUNT = 2048
#: The maximum number of records of a parcel, however small they are: as objects they must fit the receiver's cache.
_MOST_COUNT = 4096
#: The maximum number of rows of a columnar parcel: the more rows, the less often each key is looked up.
_MOST_ROWS = 65536
#: The maximum number of buffered records per target, over all strands. When it is reached, all of them are sent.
_MOST_WAITING = 8 * _MOST_COUNT


class Buffer:
    """Records waiting to be packed for one target: values or columns, never both."""

    __slots__ = ("columns", "keys", "marks", "rows", "seq", "start", "timestamps", "values")

    def __init__(self, watermark: int) -> None:
        self.seq = 0
        self.reset(watermark)

    def reset(self, watermark: int) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] | None = None
        self.keys: list[Any] = []
        self.marks: list[tuple[int, int]] = []
        self.columns: list[ColumnBatch] = []
        self.rows = 0
        self.start = watermark

    def __len__(self) -> int:
        return len(self.values) or self.rows

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any] | None) -> None:
        if timestamps is not None:
            if self.timestamps is None:
                # The records before the first one with a timestamp have none: keep the lists parallel.
                self.timestamps = [None] * len(self.values)  # type: ignore[list-item]
            self.timestamps += timestamps
        elif self.timestamps is not None:
            self.timestamps += [None] * len(values)  # type: ignore[list-item]
        self.values += values
        if keys is not None:
            self.keys += keys


class SendingStrand:
    """A strand that is being sent: its buffered records for each target, and its watermark."""

    __slots__ = ("buffers", "number", "partition", "start", "watermark")

    def __init__(self, number: int, partition: str | None, start: int, targets: int) -> None:
        self.number = number
        self.partition = partition
        self.start = start
        self.watermark = start
        self.buffers = [Buffer(start) for _ in range(targets)]

    def sent(self, target: int) -> SentStrand:
        """Return the description of the strand for a target."""
        return SentStrand(self.number, self.partition, self.buffers[target].seq, self.start)


class EdgeSender:
    """Sends the output of one subtask over one edge, epoch after epoch.

    ``origin`` is the sending operator, for messages. ``partitions`` lists the partition of each subtask of the consumer
    on its level. Full parcels are passed to ``ship``; :meth:`finish` sends the rest and closes every channel.

    With ``dealt``, the event time of the sender is that of its strands, which :meth:`progress` sets.
    """

    def __init__(
        self,
        *,
        edge: int,
        origin: str,
        route: Route,
        broadcast: bool,
        sender: int,
        level: int,
        partitions: list[int],
        parcel_size: int,
        dealt: bool = False,
    ) -> None:
        # configuration
        self._edge = edge
        self._origin = origin
        self._route = route
        self._broadcast = broadcast
        self._sender = sender
        self._level = level
        self.partitions = partitions
        self._parcel_size = parcel_size
        self._dealt = dealt
        # transient
        self._strands: dict[int, SendingStrand] = {}
        self._strand = SendingStrand(0, None, 0, 0)
        #: None until :meth:`partition_ends` is called; if it is never called, the records have no event time.
        self._ends: Sequence[PartitionEnd] | None = None
        self._waiting = 0
        self._attempt = b""
        self._watermark = 0
        self._idle = False
        self._limit = _FIRST_COUNT
        self._ship: Callable[[Header, bytes], None]

    def begin_epoch(self, attempt: bytes, watermark: int, seed: str, ship: Callable[[Header, bytes], None]) -> None:
        """Begin an epoch. All state is reset: the division into parcels depends only on the records of the epoch."""
        self._attempt = attempt
        self._watermark = watermark
        self._idle = False
        self._limit = _FIRST_COUNT
        self._ship = ship
        self._strand = SendingStrand(0, None, watermark, self._targets)
        self._strands = {0: self._strand}
        self._ends = None
        self._waiting = 0
        self._route.begin_epoch(f"{seed}/{self._edge}/{self._sender}")

    def send(self, batch: Batch) -> None:
        """Add a batch, and ship the parcels that became full."""
        if isinstance(batch, ColumnBatch):
            dealt = self._route.deal_columns(batch)
            if dealt is not None:
                self._waiting += len(batch)
                for target, rows in dealt:
                    self._send_columns(target, rows)
                return
        strand = self._strand
        buffers = strand.buffers
        self._waiting += len(batch)
        for target, values, timestamps, keys in self._route.deal(batch):
            buffer = buffers[target]
            if buffer.rows:
                self._flush(strand, target)
            buffer.add(values, timestamps, keys)
            if len(buffer.values) >= self._limit:
                self._flush(strand, target)

    def _send_columns(self, target: int, rows: ColumnBatch) -> None:
        strand = self._strand
        buffer = strand.buffers[target]
        if buffer.values or (buffer.columns and not can_follow(rows, buffer.columns[0])):
            self._flush(strand, target)
        buffer.columns.append(rows)
        buffer.rows += len(rows)
        if buffer.rows >= _MOST_ROWS or sum(part.columns.nbytes for part in buffer.columns) >= self._parcel_size:
            self._flush(strand, target)

    def progress(self, strand: Strand, watermark: int) -> None:
        """Set the strand and the watermark of what is sent next. The watermark of strand 0 does not advance."""
        if strand.number != self._strand.number:
            self._turn_to(strand, watermark)
        if strand.number and watermark > self._strand.watermark:
            self._strand.watermark = watermark
            self._mark(self._strand)

    def _turn_to(self, strand: Strand, watermark: int) -> None:
        if self._waiting >= _MOST_WAITING * self._targets:
            self._flush_all()
        found = self._strands.get(strand.number)
        if found is None:
            found = SendingStrand(strand.number, strand.partition, watermark, self._targets)
            self._strands[strand.number] = found
        self._strand = found

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """Set the final state of the partitions, which is sent at the end of the epoch."""
        self._ends = ends

    def watermark(self, watermark: int) -> None:
        """Advance the watermark for everything that is sent from now on."""
        self._watermark = watermark
        if not self._dealt:
            self._strand.watermark = watermark
            self._mark(self._strand)

    def _mark(self, strand: SendingStrand) -> None:
        watermark = strand.watermark
        for buffer in strand.buffers:
            position = len(buffer)
            if not position:
                buffer.start = watermark
                continue
            if buffer.marks and buffer.marks[-1][0] == position:
                buffer.marks[-1] = (position, watermark)
            else:
                buffer.marks.append((position, watermark))

    def watermark_status(self, idle: bool) -> None:
        """Mark the channels as idle, or as active again. This is sent immediately, because no records may follow.

        If the input of the sender is reassigned in each epoch, the status is sent with the final state of its
        partitions instead.
        """
        if self._dealt:
            return
        self._flush_all()
        self._idle = idle
        for target in range(self._targets):
            self._flush(self._strand, target)

    def finish(self) -> None:
        """Ship all buffered records, then send every target the final watermark and its number of parcels."""
        self._flush_all()
        for target, partition in enumerate(self.partitions):
            index = 0 if self._broadcast else target
            strands = [strand.sent(index) for strand in self._strands.values()]
            if self._ends is not None and (self._ends or len(strands) > 1 or strands[0].parcels):
                opening = self._header(ParcelKind.OPEN, partition, 0, self._strands[0].start)
                self._ship(opening, opening.pack() + Opening(strands, self._ends).pack())
            end = self._header(ParcelKind.END, partition, sum(strand.parcels for strand in strands), self._watermark)
            self._ship(end, end.pack())

    @property
    def _targets(self) -> int:
        return 1 if self._broadcast else len(self.partitions)

    def _flush_all(self) -> None:
        for strand in self._strands.values():
            for target, buffer in enumerate(strand.buffers):
                if len(buffer):
                    self._flush(strand, target)

    def _flush(self, strand: SendingStrand, target: int) -> None:
        buffer = strand.buffers[target]
        if buffer.rows:
            kind, payload = ParcelKind.COLUMNS, encode_columns(buffer.columns, buffer.marks)
        else:
            kind, payload = ParcelKind.DATA, self._encode(buffer)
        if buffer.values:
            self._limit = max(1, min(_MOST_COUNT, self._parcel_size * len(buffer.values) // max(1, len(payload))))
        partitions = self.partitions if self._broadcast else [self.partitions[target]]
        for partition in partitions:
            header = self._header(kind, partition, buffer.seq, buffer.start, strand.number)
            for parcel in split(header, payload, self._parcel_size):
                self._ship(header, parcel)
        self._waiting -= len(buffer)
        buffer.seq += 1
        buffer.reset(strand.watermark)

    def _header(self, kind: ParcelKind, partition: int, seq: int, watermark: int, strand: int = 0) -> Header:
        return Header(
            kind,
            self._level,
            self._edge,
            partition,
            self._sender,
            seq,
            watermark,
            self._attempt,
            idle=self._idle,
            strand=strand,
        )

    def _encode(self, buffer: Buffer) -> bytes:
        try:
            return encode_records(buffer.values, buffer.timestamps, buffer.keys or None, buffer.marks or None)
        except SerializationError as error:
            raise SerializationError(f"{self._origin} emitted a record that cannot be sent: {error}") from error
