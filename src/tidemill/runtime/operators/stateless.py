"""Operators over one input that keep nothing between records: map, flat_map, filter, process.

On a keyed stream the same functions may use keyed state, so there the key is set before each call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import length_hint
from typing import Any

from tidemill.common.calls import call_each
from tidemill.datastream.functions.process import ProcessFunction
from tidemill.datastream.program.specs import BatchMapSpec, FilterSpec, FlatMapSpec, MapSpec, ProcessSpec
from tidemill.datastream.timerservice import TimerService
from tidemill.errors import StateError
from tidemill.runtime.batch.plain_functions import keeps_nothing
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.base import Operator, OperatorContext, method_of


class ElementwiseOperator(Operator):
    """Calls a user function once per record, in one pass over the batch."""

    method: str

    def __init__(self, spec: MapSpec | FlatMapSpec | FilterSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._call: Callable[[Any], Any] = method_of(spec.function, self.method)
        self._keeps_nothing = keeps_nothing(self._call)
        self._timestamp: int | None = None

    def functions(self) -> list[Any]:
        return [self._function]

    @property
    def record_timestamp(self) -> int | None:
        return self._timestamp

    def _apply(self, batch: Batch) -> list[Any]:
        """The function's result for each record."""
        backend, call = self.context.backend, self._taking() or self._call
        if batch.keys is None or backend is None:
            return call_each(call, batch.values, partial(self.failed_at, batch.values))
        remaining = iter(batch.values)
        try:
            context = backend.context
            results = []
            if backend.event_time_ttl and batch.timestamps is not None:
                for context.key, self._timestamp, value in zip(batch.keys, batch.timestamps, remaining, strict=True):
                    results.append(call(value))
            else:
                for context.key, value in zip(batch.keys, remaining, strict=True):
                    results.append(call(value))
        except BaseException as error:
            raise self.failed_at(batch.values, error, len(batch) - length_hint(remaining) - 1) from error
        finally:
            self._timestamp = None
        return results

    def _taking(self) -> Callable[[Any], Any] | None:
        """The function, made to take what it emits as it is then; None where that needs no look."""
        return None


class MapOperator(ElementwiseOperator):
    """map: one record for each record."""

    method = "map"

    def process(self, batch: Batch, input_index: int) -> None:
        self._emit(self._apply(batch), batch.timestamps)

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
    """filter: the records for which the function is true."""

    method = "filter"

    def process(self, batch: Batch, input_index: int) -> None:
        chosen = self._apply(batch)
        kept = batch.where(chosen)
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
        # Ours are the batch and the variables here and of the caller: more than that, and the function has kept it.
        return lambda value: (take(value, 3),) if call(value) else ()


class FlatMapOperator(ElementwiseOperator):
    """flat_map: any number of records for each record; None counts as none."""

    method = "flat_map"

    def process(self, batch: Batch, input_index: int) -> None:
        values: list[Any] = []
        timestamps: list[int] | None = None if batch.timestamps is None else []
        keys = None if self.context.backend is None else batch.keys
        context = None if self.context.backend is None else self.context.backend.context
        event_times = batch.timestamps if self.context.backend and self.context.backend.event_time_ttl else None
        call, extend = self._call, self.output.emissions.extend_of(values)
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
        except BaseException as error:
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
            results: list[Any] = []
            self.output.emissions.extend_of(results)(self._function(list(batch.values)))
            if len(results) != len(batch):
                raise ValueError(f"map_batch() must return one record for each: {len(batch)} in, {len(results)} out")
        except BaseException as error:
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
        call, extend = self._function.process_element, self.output.emissions.extend_of(values)
        value = None
        try:
            for position, value in enumerate(batch.values):
                before = len(values)
                if timestamps is not None and batch.timestamps is not None:
                    context.current_timestamp = batch.timestamps[position]
                result = call(value, context)
                if result is not None:
                    extend(result)
                    if timestamps is not None and batch.timestamps is not None:
                        timestamps += [batch.timestamps[position]] * (len(values) - before)
        except BaseException as error:
            raise self.failed(error, record=value, with_record=True) from error
        finally:
            context.current_timestamp = None
        self.output.emit_tagged(values, timestamps)
