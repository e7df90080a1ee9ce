"""Operators over one input that keep nothing between records: map, flat_map, filter, process.

On a keyed stream the same functions may use keyed state, so there the key is set before each call.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint
from typing import Any

from tidemill.datastream.process_functions import ProcessFunction
from tidemill.datastream.specs import BatchMapSpec, FilterSpec, FlatMapSpec, MapSpec, ProcessSpec
from tidemill.datastream.timerservice import TimerService
from tidemill.errors import StateError
from tidemill.runtime.emitted import copying_extend, emitted
from tidemill.runtime.operators.base import Operator, OperatorContext, method_of
from tidemill.runtime.records import Batch


class ElementwiseOperator(Operator):
    """Calls a user function once per record, in one pass over the batch."""

    method: str

    def __init__(self, spec: MapSpec | FlatMapSpec | FilterSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._call: Callable[[Any], Any] = method_of(spec.function, self.method)
        self._timestamp: int | None = None

    def functions(self) -> list[Any]:
        return [self._function]

    @property
    def record_timestamp(self) -> int | None:
        return self._timestamp

    def _apply(self, batch: Batch) -> list[Any]:
        """The function's result for each record."""
        remaining = iter(batch.values)
        try:
            if batch.keys is None or self.context.backend is None:
                results = list(map(self._call, remaining))
            else:
                context, call = self.context.backend.context, self._call
                results = []
                if self.context.backend.event_time_ttl and batch.timestamps is not None:
                    for context.key, self._timestamp, value in zip(
                        batch.keys, batch.timestamps, remaining, strict=True
                    ):
                        results.append(emitted(call(value)))
                elif self.context.backend.mutable:
                    for context.key, value in zip(batch.keys, remaining, strict=True):
                        results.append(emitted(call(value)))
                else:
                    for context.key, value in zip(batch.keys, remaining, strict=True):
                        results.append(call(value))
        except Exception as error:
            record = batch.values[len(batch) - length_hint(remaining) - 1]
            raise self.failed(error, record=record, with_record=True) from error
        finally:
            self._timestamp = None
        return results


class MapOperator(ElementwiseOperator):
    """map: one record for each record."""

    method = "map"

    def process(self, batch: Batch, input_index: int) -> None:
        self.output.emit(self._apply(batch), batch.timestamps)


class FilterOperator(ElementwiseOperator):
    """filter: the records for which the function is true."""

    method = "filter"

    def process(self, batch: Batch, input_index: int) -> None:
        kept = batch.where(self._apply(batch))
        self.output.emit(kept.values, kept.timestamps)


class FlatMapOperator(ElementwiseOperator):
    """flat_map: any number of records for each record; None counts as none."""

    method = "flat_map"

    def process(self, batch: Batch, input_index: int) -> None:
        values: list[Any] = []
        timestamps: list[int] | None = None if batch.timestamps is None else []
        keys = None if self.context.backend is None else batch.keys
        context = None if self.context.backend is None else self.context.backend.context
        copies = self.context.backend is not None and self.context.backend.mutable
        event_times = batch.timestamps if self.context.backend and self.context.backend.event_time_ttl else None
        call, extend = self._call, copying_extend(values) if copies else values.extend
        value = None
        try:
            if timestamps is None and keys is None:
                for value in batch.values:
                    result = call(value)
                    if result is not None:
                        extend(result)
            else:
                for position, value in enumerate(batch.values):
                    if context is not None and keys is not None:
                        context.key = keys[position]
                    if event_times is not None:
                        self._timestamp = event_times[position]
                    before = len(values)
                    result = call(value)
                    if result is not None:
                        extend(result)
                    if timestamps is not None and batch.timestamps is not None:
                        timestamps += [batch.timestamps[position]] * (len(values) - before)
        except Exception as error:
            raise self.failed(error, record=value, with_record=True) from error
        finally:
            self._timestamp = None
        self.output.emit(values, timestamps)


class MapBatchOperator(Operator):
    """map_batch: as many records out as in, a list of them at a time."""

    def __init__(self, spec: BatchMapSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function

    def functions(self) -> list[Any]:
        return [self._function]

    def process(self, batch: Batch, input_index: int) -> None:
        try:
            results = list(self._function(list(batch.values)))
            if len(results) != len(batch):
                raise ValueError(f"map_batch() must return one record for each: {len(batch)} in, {len(results)} out")
        except Exception as error:
            raise self.failed(error) from error
        self.output.emit(results, batch.timestamps)


class PlainContext(ProcessFunction.Context, TimerService):
    """The context of a process function on a stream that is not keyed: clocks can be read, timers cannot be set."""

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
    """process on a stream that is not keyed."""

    def __init__(self, spec: ProcessSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._function_context = PlainContext(self)

    def functions(self) -> list[Any]:
        return [self._function]

    def process(self, batch: Batch, input_index: int) -> None:
        values: list[Any] = []
        timestamps: list[int] | None = None if batch.timestamps is None else []
        context = self._function_context
        call = self._function.process_element
        value = None
        try:
            for position, value in enumerate(batch.values):
                before = len(values)
                if timestamps is not None and batch.timestamps is not None:
                    context.current_timestamp = batch.timestamps[position]
                result = call(value, context)
                if result is not None:
                    values.extend(result)
                    if timestamps is not None and batch.timestamps is not None:
                        timestamps += [batch.timestamps[position]] * (len(values) - before)
        except Exception as error:
            raise self.failed(error, record=value, with_record=True) from error
        finally:
            context.current_timestamp = None
        self.output.emit_tagged(values, timestamps)
