"""The sending end of an exchange: packs what a route deals to each target into parcels.

Everything here is done per batch. Watermarks travel in band: a mark says after how many of the parcel's records the
channel's time moved on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.runtime.columns import ColumnBatch, Shape, encode_columns
from tidemill.runtime.parcels import Header, Kind, encode_records, split
from tidemill.runtime.records import Batch
from tidemill.runtime.routes import Route

#: Records of a first parcel; later ones follow the measured size of a record.
_FIRST_COUNT = 2048
#: A parcel never holds more records than this, however small they are: as objects they must fit the receiver's cache.
_MOST_COUNT = 4096
#: The same for rows that are still columns.
_MOST_ROWS = 16384


class Buffer:
    """Records waiting to be packed for one target."""

    __slots__ = ("columns", "key_column", "keys", "marks", "rows", "seq", "shape", "start", "timestamps", "values")

    def __init__(self, watermark: int) -> None:
        self.seq = 0
        self.reset(watermark)

    def reset(self, watermark: int) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] | None = None
        self.keys: list[Any] = []
        self.marks: list[tuple[int, int]] = []
        self.columns: list[pa.RecordBatch] = []
        self.rows = 0
        self.shape = Shape.TUPLE
        self.key_column = 0
        self.start = watermark

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any] | None) -> None:
        if timestamps is not None:
            if self.timestamps is None:
                # Records without a timestamp before the first that has one: keep the lists parallel.
                self.timestamps = [None] * len(self.values)  # type: ignore[list-item]
            self.timestamps += timestamps
        elif self.timestamps is not None:
            self.timestamps += [None] * len(values)  # type: ignore[list-item]
        self.values += values
        if keys is not None:
            self.keys += keys


class EdgeSender:
    """Sends the output of one subtask over one edge, epoch after epoch.

    ``origin`` is the sending operator, for messages. ``partitions`` lists the partition of each subtask of the consumer
    on its level. Parcels that are full are handed to ``ship``; :meth:`finish` sends the rest and closes every channel.
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
        # transient
        self._buffers: list[Buffer] = []
        self._attempt = b""
        self._watermark = 0
        self._idle = False
        self._limit = _FIRST_COUNT
        self._ship: Callable[[Header, bytes], None]

    def begin_epoch(self, attempt: bytes, watermark: int, seed: str, ship: Callable[[Header, bytes], None]) -> None:
        """Start an epoch from scratch: how records are cut into parcels depends on the epoch's records alone."""
        self._attempt = attempt
        self._watermark = watermark
        self._idle = False
        self._limit = _FIRST_COUNT
        self._ship = ship
        self._buffers = [Buffer(watermark) for _ in range(1 if self._broadcast else len(self.partitions))]
        self._route.begin_epoch(f"{seed}/{self._edge}/{self._sender}")

    def send(self, batch: Batch) -> None:
        """Take one batch; parcels that became full are shipped."""
        if isinstance(batch, ColumnBatch):
            dealt = self._route.deal_columns(batch)
            if dealt is not None:
                for target, rows, key in dealt:
                    self._send_columns(target, rows, batch.shape, key)
                return
        for target, values, timestamps, keys in self._route.deal(batch):
            buffer = self._buffers[target]
            if buffer.rows:
                self._flush(target)
            buffer.add(values, timestamps, keys)
            if len(buffer.values) >= self._limit:
                self._flush(target)

    def _send_columns(self, target: int, rows: pa.RecordBatch, shape: Shape, key: int) -> None:
        buffer = self._buffers[target]
        if buffer.values:
            self._flush(target)
        buffer.columns.append(rows)
        buffer.rows += rows.num_rows
        buffer.shape, buffer.key_column = shape, key
        if buffer.rows >= _MOST_ROWS or sum(part.nbytes for part in buffer.columns) >= self._parcel_size:
            self._flush(target)

    def watermark(self, watermark: int) -> None:
        """Time has moved on for everything sent from now on."""
        self._watermark = watermark
        for target, buffer in enumerate(self._buffers):
            if buffer.rows:
                self._flush(target)
            if not buffer.values:
                buffer.start = watermark
                continue
            position = len(buffer.values)
            if buffer.marks and buffer.marks[-1][0] == position:
                buffer.marks[-1] = (position, watermark)
            else:
                buffer.marks.append((position, watermark))

    def watermark_status(self, idle: bool) -> None:
        """From now on the channels are idle, or active again. It is said at once, since nothing else may follow."""
        for target, buffer in enumerate(self._buffers):
            if buffer.values or buffer.rows:
                self._flush(target)
        self._idle = idle
        for target in range(len(self._buffers)):
            self._flush(target)

    def finish(self) -> None:
        """Ship what is left, then tell every target the final watermark and how many parcels it was sent."""
        for target, buffer in enumerate(self._buffers):
            if buffer.values or buffer.rows:
                self._flush(target)
        for target, partition in enumerate(self.partitions):
            sent = self._buffers[0 if self._broadcast else target].seq
            header = Header(
                Kind.END,
                self._level,
                self._edge,
                partition,
                self._sender,
                sent,
                self._watermark,
                self._attempt,
                idle=self._idle,
            )
            self._ship(header, header.pack())

    def _flush(self, target: int) -> None:
        buffer = self._buffers[target]
        if buffer.rows:
            kind, payload = Kind.COLUMNS, encode_columns(buffer.columns, buffer.shape, buffer.key_column)
        else:
            kind, payload = Kind.DATA, self._encode(buffer)
        if buffer.values:
            self._limit = max(1, min(_MOST_COUNT, self._parcel_size * len(buffer.values) // max(1, len(payload))))
        partitions = self.partitions if self._broadcast else [self.partitions[target]]
        for partition in partitions:
            header = Header(
                kind,
                self._level,
                self._edge,
                partition,
                self._sender,
                buffer.seq,
                buffer.start,
                self._attempt,
                idle=self._idle,
            )
            for parcel in split(header, payload, self._parcel_size):
                self._ship(header, parcel)
        buffer.seq += 1
        buffer.reset(self._watermark)

    def _encode(self, buffer: Buffer) -> bytes:
        try:
            return encode_records(buffer.values, buffer.timestamps, buffer.keys or None, buffer.marks or None)
        except SerializationError as error:
            raise SerializationError(f"{self._origin} produced what cannot be sent: {error}") from error
