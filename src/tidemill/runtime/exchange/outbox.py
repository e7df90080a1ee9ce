"""How what a subtask sends finds its way: parcels to the next level, through it to deeper ones, and to the driver."""

from __future__ import annotations

import pickle

from tidemill.checkpoint.model import Ack
from tidemill.runtime.batch.failures import Failure
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.exchange.parcels import HEADER_SIZE, Header, ParcelKind, order_of

#: The level an ack is addressed to: none, it goes through all of them to the driver.
DRIVER_LEVEL = 0xFFFF


class Outbox:
    """Collects what a subtask sends, with the sort key the engine orders by: ``order << 32 | partition``."""

    def __init__(self, context: EpochContext, layout: Layout, level: int, partition: int) -> None:
        self._base = context.watermark_base
        self._layout = layout
        self._next = level + 1
        self._partition = partition
        #: Bytes that this subtask itself has sent.
        self.bytes = 0
        self._ready: list[tuple[int, bytes]] = []
        self._passing: list[tuple[int, bytes]] = []

    def ship(self, header: Header, parcel: bytes) -> None:
        """Send a parcel of this subtask."""
        self.bytes += len(parcel)
        self._ready.append(self._addressed(header, parcel))

    def pass_on(self, header: Header, parcel: bytes) -> None:
        """Send on what somebody else sent to a deeper level, or to the driver."""
        self._passing.append(self._addressed(header, parcel))

    def _addressed(self, header: Header, parcel: bytes) -> tuple[int, bytes]:
        """A parcel for the next level: for its target, or for somebody there who will send it on."""
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
        """Send something to the driver."""
        header = Header(ParcelKind.ACK, DRIVER_LEVEL, 0, 0, 0, 0, 0, b"")
        self.ship(header, header.pack() + pickle.dumps(content, 5))

    def drain(self) -> list[tuple[int, bytes]]:
        """What is ready to go; forgets it."""
        ready = self._ready + self._passing if self._passing else self._ready
        self._ready, self._passing = [], []
        return ready

    def drop(self) -> None:
        """Forget what this subtask has sent; what others sent through it still goes."""
        self._ready = []


def read_report(parcel: bytes) -> Ack | Failure:
    """What a subtask reported; parcels come from workers of this job only."""
    content: Ack | Failure = pickle.loads(memoryview(parcel)[HEADER_SIZE:])
    return content
