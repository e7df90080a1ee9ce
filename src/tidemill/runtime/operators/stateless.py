"""Operators with one input and no state of their own: map, flat_map, filter, process.

On a keyed stream the same functions may use keyed state, so the key is set before each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.datastream.functions.process import ProcessFunction
from tidemill.datastream.program.specs import FilterSpec, FlatMapSpec, MapSpec, ProcessSpec
from tidemill.datastream.streams.projection import Projection
from tidemill.datastream.timerservice import TimerService
from tidemill.errors import StateError
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.emitted import CHOSEN
from tidemill.runtime.batch.plain_functions import keeps_nothing
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.base import Operator, OperatorContext, method_of
from tidemill.runtime.operators.record_loops import flat_map_each, map_each


class ElementwiseOperator(Operator):
    """Calls a user function once per record, in one pass over the batch."""

    method: str

    def __init__(self, spec: MapSpec | FlatMapSpec | FilterSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._call: Callable[[Any], Any] = method_of(spec.function, self.method)
        self._keeps_nothing = keeps_nothing(self._call)
        #: The event time of the current record.
        self.current_timestamp: int | None = None

    def functions(self) -> list[Any]:
        return [self._function]

    @property
    def record_timestamp(self) -> int | None:
        return self.current_timestamp

    def _apply(self, batch: Batch) -> list[Any]:
        """Return the function's result for each record."""
        return map_each(self, batch, self._taking() or self._call, self)

    def _taking(self) -> Callable[[Any], Any] | None:
        """Return a wrapper of the function that captures its results; None if they need no check."""
        return None


class MapOperator(ElementwiseOperator):
    """map: one output record for each input record."""

    method = "map"

    def process(self, batch: Batch, input_index: int) -> None:
        selected = self._selected(batch)
        if selected is not None:
            self.output.emit_batch(selected)
        else:
            self._emit(self._apply(batch), batch.timestamps)

    def _selected(self, batch: Batch) -> ColumnBatch | None:
        """Return the columns of a projection; None if the function must be called."""
        function = self._function
        if isinstance(function, Projection) and isinstance(batch, ColumnBatch):
            return batch.select(function.positions)
        return None

    def _emit(self, results: list[Any], timestamps: list[int] | None) -> None:
        if self._keeps_nothing:
            self.output.pass_on(results, timestamps)
        else:
            self.output.emit(results, timestamps)

    def _taking(self) -> Callable[[Any], Any] | None:
        if self._keeps_nothing or not self.output.emissions.looks:
            return None
        call, take = self._call, self.output.emissions.take_returned
        return lambda value: take(call(value), value)


class FilterOperator(ElementwiseOperator):
    """filter: the records for which the function returns true."""

    method = "filter"

    def process(self, batch: Batch, input_index: int) -> None:
        chosen = self._apply(batch)
        kept = batch.where(chosen)
        if isinstance(kept, ColumnBatch) and kept.immutable:
            self.output.emit_batch(kept.without_keys())
            return
        if self._keeps_nothing:
            self.output.pass_on(kept.values, kept.timestamps)
            return
        if self.output.emissions.looks:
            kept.values = [taken[0] for taken in chosen if taken]
        self.output.emit(kept.values, kept.timestamps)

    def _taking(self) -> Callable[[Any], Any] | None:
        if self._keeps_nothing or not self.output.emissions.looks:
            return None
        call, take = self._call, self.output.emissions.take
        # Our references are the batch and the variables here and of the caller. If there are more, the function has
        # kept the record.
        return lambda value: (take(value, CHOSEN),) if call(value) else ()


class FlatMapOperator(ElementwiseOperator):
    """flat_map: any number of output records for each input record; None means no records."""

    method = "flat_map"

    def process(self, batch: Batch, input_index: int) -> None:
        self.output.emit(*flat_map_each(self, batch, self._call, self, with_context=False))


class PlainContext(ProcessFunction.Context, TimerService):
    """The context of a process function on a non-keyed stream: clocks can be read, timers cannot be set."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.current_timestamp: int | None = None

    def timestamp(self) -> int | None:
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        return self

    def current_processing_time(self) -> int:
        return self._operator.processing_time

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def register_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def _refuse(self) -> None:
        raise StateError("timers can be set only on a keyed stream: call key_by() before process()")


class ProcessOperator(Operator):
    """process on a non-keyed stream."""

    def __init__(self, spec: ProcessSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._function_context = PlainContext(self)

    def functions(self) -> list[Any]:
        return [self._function]

    def process(self, batch: Batch, input_index: int) -> None:
        call = self._function.process_element
        self.output.emit_tagged(*flat_map_each(self, batch, call, self._function_context, with_context=True))
