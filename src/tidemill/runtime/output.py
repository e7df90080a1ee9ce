"""Where an operator's records go: the next operators of its chain and the senders of its exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.output_tag import OutputTag
from tidemill.errors import TypeMismatchError
from tidemill.runtime.records import Batch
from tidemill.runtime.strands import PartitionEnd, Strand, StrandListener

Receiver = Callable[[Batch], None]

_first = itemgetter(0)


class Output:
    """Fans one operator's output out to its consumers, main and side, and counts it."""

    def __init__(
        self,
        operator: str,
        output_type: TypeInformation | None,
        side_outputs: Iterable[tuple[str, TypeInformation]] = (),
    ) -> None:
        # configuration
        self._operator = operator
        self._shape = None if output_type is None else output_type.shaper()
        self._shape_side = {tag: type_info.shaper() for tag, type_info in side_outputs}
        self._main: list[Receiver] = []
        self._side: dict[str, list[Receiver]] = {}
        self._watermark: list[Callable[[int], None]] = []
        self._status: list[Callable[[bool], None]] = []
        self._strands: list[StrandListener] = []
        #: Told of records of side outputs that nobody reads; they are dropped otherwise.
        self.on_unread: Callable[[str, Batch], None] | None = None
        # transient
        self.records = 0
        #: The event time of the last record, if it had one.
        self.last_timestamp: int | None = None

    def connect(
        self,
        receiver: Receiver,
        watermark: Callable[[int], None],
        side_output: str | None,
        status: Callable[[bool], None] | None = None,
        strands: StrandListener | None = None,
    ) -> None:
        """Add a consumer of the main output or of one side output.

        Watermarks, their status, and what is told of strands go to all of them.
        """
        if side_output is None:
            self._main.append(receiver)
        else:
            self._side.setdefault(side_output, []).append(receiver)
        self._watermark.append(watermark)
        if status is not None:
            self._status.append(status)
        if strands is not None:
            self._strands.append(strands)

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Hand on records of the main output, in the form of its type."""
        if not values:
            return
        if self._shape is not None:
            values = self._shaped(self._shape, values, "a record")
        self._deliver(values, timestamps)

    def emit_batch(self, batch: Batch) -> None:
        """Hand on a whole batch as it is; for sources, whose records have the type they were declared with."""
        if len(batch):
            self.records += len(batch)
            if batch.timestamps:
                self.last_timestamp = batch.timestamps[-1]
            for receive in self._main:
                receive(batch)

    def emit_tagged(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Hand on what a process function yielded: plain values, and ``(tag, value)`` pairs for side outputs."""
        if OutputTag.in_use and values and _has_tags(values):
            values, timestamps = self._emit_side(values, timestamps)
        self.emit(values, timestamps)

    def take_count(self) -> int:
        """The number of records emitted since the last call."""
        count, self.records = self.records, 0
        return count

    def watermark(self, watermark: int) -> None:
        """Tell all consumers that time has moved on."""
        for receive in self._watermark:
            receive(watermark)

    def watermark_status(self, idle: bool) -> None:
        """Tell all consumers that they need not wait for this operator, or that they must again."""
        for receive in self._status:
            receive(idle)

    def progress(self, strand: Strand, watermark: int) -> None:
        """Tell all consumers that what follows is of this strand, whose time is this."""
        for listener in self._strands:
            listener.progress(strand, watermark)

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """Tell all consumers what partitions have come to at the end of the epoch."""
        for listener in self._strands:
            listener.partition_ends(ends)

    def _deliver(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.records += len(values)
        if timestamps:
            self.last_timestamp = timestamps[-1]
        batch = Batch(values, timestamps)
        for receive in self._main:
            receive(batch)

    def _deliver_side(self, tag: str, values: list[Any], timestamps: list[int] | None) -> None:
        batch = Batch(values, timestamps)
        for receive in self._side.get(tag, ()):
            receive(batch)
        if self.on_unread is not None and tag not in self._side:
            self.on_unread(tag, batch)

    def _shaped(self, shape: Callable[[list[Any]], list[Any]], values: list[Any], what: str) -> list[Any]:
        try:
            return shape(values)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"{self._operator} produced {what} of the wrong type: {error}") from None

    def _emit_side(self, values: list[Any], timestamps: list[int] | None) -> tuple[list[Any], list[int] | None]:
        tagged = [type(value) is tuple and len(value) == 2 and type(value[0]) is OutputTag for value in values]
        by_tag: dict[str, tuple[list[Any], list[int] | None]] = {}
        for position, value in enumerate(values):
            if tagged[position]:
                side = by_tag.setdefault(value[0].tag_id, ([], None if timestamps is None else []))
                side[0].append(value[1])
                if timestamps is not None and side[1] is not None:
                    side[1].append(timestamps[position])
        for tag, (side_values, side_timestamps) in by_tag.items():
            shape = self._shape_side.get(tag)
            what = f"a record for side output {tag!r}"
            shaped = side_values if shape is None else self._shaped(shape, side_values, what)
            self._deliver_side(tag, shaped, side_timestamps)
        main = Batch(values, timestamps).where([not is_tagged for is_tagged in tagged])
        return main.values, main.timestamps


def _has_tags(values: list[Any]) -> bool:
    """Whether any value is a pair whose first element is a tag; runs in C over the whole batch."""
    pairs = values if set(map(type, values)) == {tuple} else [v for v in values if type(v) is tuple]
    try:
        return OutputTag in set(map(type, map(_first, pairs)))
    except IndexError:  # an empty tuple among them
        return OutputTag in {type(pair[0]) for pair in pairs if pair}
