"""Addresses what a subtask sends: parcels to the next level, through it to deeper levels, and to the driver."""

from __future__ import annotations

import pickle

from tidemill.checkpoint.model import Ack
from tidemill.runtime.batch.failures import Failure
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.exchange.parcels import HEADER_SIZE, Header, ParcelKind, order_of

#: The level of acks: they pass through all levels to the driver.
DRIVER_LEVEL = 0xFFFF


class Outbox:
    """Collects what a subtask sends, with the sort key for the engine: ``order << 32 | partition``."""

    def __init__(self, context: EpochContext, layout: Layout, level: int, partition: int) -> None:
        self._base = context.watermark_base
        self._layout = layout
        self._next = level + 1
        self._partition = partition
        #: The number of bytes that this subtask itself has sent.
        self.bytes = 0
        self._ready: list[tuple[int, bytes]] = []
        self._passing: list[tuple[int, bytes]] = []

    def ship(self, header: Header, parcel: bytes) -> None:
        """Send a parcel of this subtask."""
        self.bytes += len(parcel)
        self._ready.append(self._addressed(header, parcel))

    def pass_on(self, header: Header, parcel: bytes) -> None:
        """Forward a parcel of another subtask to a deeper level, or to the driver."""
        self._passing.append(self._addressed(header, parcel))

    def _addressed(self, header: Header, parcel: bytes) -> tuple[int, bytes]:
        """Return the parcel with its sort key: for its target on the next level, or for a subtask that forwards it."""
        if self._next >= self._layout.depth:
            partition = 0  # the driver
        elif header.level == self._next:
            partition = header.target
        else:
            partition = (self._partition if header.level == DRIVER_LEVEL else header.target) % self._layout.width(
                self._next
            )
        return order_of(header, self._base) << 32 | partition, parcel

    def report(self, content: Ack | Failure) -> None:
        """Send a report to the driver."""
        header = Header(ParcelKind.ACK, DRIVER_LEVEL, 0, 0, 0, 0, 0, b"")
        self.ship(header, header.pack() + pickle.dumps(content, 5))

    def drain(self) -> list[tuple[int, bytes]]:
        """Return and remove the parcels that are ready to be sent."""
        ready = self._ready + self._passing if self._passing else self._ready
        self._ready, self._passing = [], []
        return ready

    def drop(self) -> None:
        """Discard the parcels of this subtask. Those that it forwards for others are still sent."""
        self._ready = []


def read_report(parcel: bytes) -> Ack | Failure:
    """Return the report of a subtask. Parcels come only from workers of this job."""
    content: Ack | Failure = pickle.loads(memoryview(parcel)[HEADER_SIZE:])
    return content
