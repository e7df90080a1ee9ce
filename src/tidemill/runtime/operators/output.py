"""The output of an operator: passes records to the next operators of its chain and the senders of its exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.output_tag import OutputTag
from tidemill.errors import TypeMismatchError
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.emitted import Emissions, are_fixed
from tidemill.runtime.batch.failures import user_error
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.time.strands import PartitionEnd, Strand, StrandListener

Receiver = Callable[[Batch], None]

_first = itemgetter(0)


class _Consumer(NamedTuple):
    receive: Receiver
    #: Whether the consumer may change the records that it receives.
    changes: bool


class Output:
    """Passes the main and side outputs of one operator to their consumers, and counts the records.

    Records are converted to their declared types; ``strict`` is ``pipeline.strict-types``.
    """

    def __init__(
        self,
        operator: str,
        output_type: TypeInformation | None,
        side_outputs: Iterable[tuple[str, TypeInformation]] = (),
        emissions: Emissions | None = None,
        *,
        strict: bool = False,
    ) -> None:
        # configuration
        side_outputs = list(side_outputs)
        self._operator = operator
        self.emissions = emissions or Emissions.of(operator, "", output_type, [kind for _, kind in side_outputs])
        self._shape = None if output_type is None else output_type.shaper(strict=strict)
        self._shape_side = {tag: type_info.shaper(strict=strict) for tag, type_info in side_outputs}
        self._main: list[_Consumer] = []
        self._side: dict[str, list[_Consumer]] = {}
        self._watermark: list[Callable[[int], None]] = []
        self._status: list[Callable[[bool], None]] = []
        self._strands: list[StrandListener] = []
        #: Called with records of side outputs that have no consumer. By default they are dropped.
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
        *,
        changes: bool = True,
    ) -> None:
        """Add a consumer of the main output or of one side output.

        Watermarks, their status and strands are passed to all consumers. With ``changes``, a consumer may change the
        records that it receives; other consumers are not affected.
        """
        consumer = _Consumer(receiver, changes)
        if side_output is None:
            self._main.append(consumer)
        else:
            self._side.setdefault(side_output, []).append(consumer)
        self._watermark.append(watermark)
        if status is not None:
            self._status.append(status)
        if strands is not None:
            self._strands.append(strands)

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Pass on what a function emitted, converted to its declared type.

        As in PyFlink, ``(tag, value)`` pairs are records for side outputs if any side output of the operator is read.
        """
        if values:
            self._emit_all(values, timestamps, fixed=self.emissions.settle(values), may_have_tags=bool(self._side))

    def pass_on(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Pass on records that nothing else refers to: from the input, or of a function that keeps no references."""
        if values:
            self._emit_all(values, timestamps, fixed=False, may_have_tags=bool(self._side))

    def _emit_all(self, values: list[Any], timestamps: list[int] | None, *, fixed: bool, may_have_tags: bool) -> None:
        if may_have_tags and OutputTag.in_use and _has_tags(values):
            values, timestamps = self._emit_side(values, timestamps, fixed)
        if values:
            self._emit_shaped(values, timestamps, fixed=fixed)

    def _emit_shaped(self, values: list[Any], timestamps: list[int] | None, *, fixed: bool) -> None:
        if self._shape is not None:
            shaped = self._shaped(self._shape, values, "a record")
            if fixed:
                self.emissions.check_shaped(values, shaped)
            values = shaped
        self._deliver(values, timestamps, fixed)

    def emit_batch(self, batch: Batch) -> None:
        """Pass on a whole batch without conversion: of a source, whose records already have their declared type, or of
        an operator that has not changed the records of such a batch."""
        if len(batch):
            self.records += len(batch)
            last = batch.last_timestamp
            if last is not None:
                self.last_timestamp = last
            self._hand_out(batch, self._main, fixed=False)

    def emit_tagged(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Pass on what a process function yielded: plain values, and ``(tag, value)`` pairs for side outputs."""
        if values:
            self._emit_all(values, timestamps, fixed=self.emissions.settle(values), may_have_tags=True)

    def take_count(self) -> int:
        """Return the number of records emitted since the last call."""
        count, self.records = self.records, 0
        return count

    def watermark(self, watermark: int) -> None:
        """Pass a watermark to all consumers."""
        for receive in self._watermark:
            receive(watermark)

    def watermark_status(self, idle: bool) -> None:
        """Notify all consumers that this operator is idle, or active again."""
        for receive in self._status:
            receive(idle)

    def progress(self, strand: Strand, watermark: int) -> None:
        """Notify all consumers of the strand of the following records, and of its watermark."""
        for listener in self._strands:
            listener.progress(strand, watermark)

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """Pass the final state of partitions in this epoch to all consumers."""
        for listener in self._strands:
            listener.partition_ends(ends)

    def _deliver(self, values: list[Any], timestamps: list[int] | None, fixed: bool) -> None:
        self.records += len(values)
        if timestamps:
            self.last_timestamp = timestamps[-1]
        self._hand_out(Batch(values, timestamps), self._main, fixed)

    def _deliver_side(self, tag: str, values: list[Any], timestamps: list[int] | None, fixed: bool) -> None:
        batch = Batch(values, timestamps)
        self._hand_out(batch, self._side.get(tag, ()), fixed)
        if self.on_unread is not None and tag not in self._side:
            self.on_unread(tag, batch)

    def _hand_out(self, batch: Batch, consumers: Sequence[_Consumer], fixed: bool) -> None:
        """Pass a batch to each consumer. Those that may change records get a copy, unless the records are immutable."""
        if len(consumers) == 1:
            consumers[0].receive(batch)
        elif isinstance(batch, ColumnBatch):  # each consumer creates its own records
            for consumer in consumers:
                consumer.receive(batch.again())
        elif fixed or self.emissions.reuses or not any(consumer.changes for consumer in consumers):
            for consumer in consumers:
                consumer.receive(batch)
        else:
            self._hand_out_copies(batch, consumers)

    def _hand_out_copies(self, batch: Batch, consumers: Sequence[_Consumer]) -> None:
        if are_fixed(batch.values):
            copies: list[Batch] = [batch] * len(consumers)
        else:
            # Consumers that change nothing share the batch. If there are none, the last consumer gets it.
            left = all(consumer.changes for consumer in consumers)
            copy = self.emissions.copy
            copies = [
                Batch([copy(value) for value in batch.values], batch.timestamps, batch.keys)
                if consumer.changes and not (left and place == len(consumers) - 1)
                else batch
                for place, consumer in enumerate(consumers)
            ]
        for consumer, its in zip(consumers, copies, strict=True):
            consumer.receive(its)

    def _shaped(self, shape: Callable[[list[Any]], list[Any]], values: list[Any], what: str) -> list[Any]:
        try:
            return shape(values)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"{self._operator} produced {what} of the wrong type: {error}") from None
        except BaseException as error:  # for example, a property of the record's class
            raise user_error(f"{self._operator}, while the type of {what} was checked", error) from error

    def _emit_side(
        self, values: list[Any], timestamps: list[int] | None, fixed: bool
    ) -> tuple[list[Any], list[int] | None]:
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
            if fixed:
                self.emissions.check_shaped(side_values, shaped)
            self._deliver_side(tag, shaped, side_timestamps, fixed)
        main = Batch(values, timestamps).where([not is_tagged for is_tagged in tagged])
        return main.values, main.timestamps


def _has_tags(values: list[Any]) -> bool:
    """Whether any value is a pair whose first element is a tag; runs in C over the whole batch."""
    pairs = values if set(map(type, values)) == {tuple} else [v for v in values if type(v) is tuple]
    try:
        return OutputTag in set(map(type, map(_first, pairs)))
    except IndexError:  # one of them is an empty tuple
        return OutputTag in {type(pair[0]) for pair in pairs if pair}
