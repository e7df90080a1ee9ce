"""Operators on a keyed stream: process and reduce, and the base class of all operators with timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.basic import AggregateFunction
from tidemill.datastream.functions.process import KeyedProcessFunction
from tidemill.datastream.functions.state import AggregatingStateDescriptor, ReducingStateDescriptor
from tidemill.datastream.program.specs import ProcessSpec, ReduceSpec
from tidemill.datastream.time_domain import TimeDomain
from tidemill.datastream.timerservice import TimerService
from tidemill.errors import StateError
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.operators.base import Operator, OperatorContext, method_of
from tidemill.runtime.operators.columnar.aggregates import columnar
from tidemill.runtime.operators.milliseconds import timer_time
from tidemill.runtime.operators.record_loops import flat_map_each, map_each
from tidemill.state.keyed.backend import KeyedStateBackend


class KeyedContext(KeyedProcessFunction.OnTimerContext, TimerService):
    """Context, timer context and timer service of a keyed function, in one object per operator instance."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        self._operator = operator
        self._keys = backend.context
        self._event_timers = backend.event_timers
        self._processing_timers = backend.processing_timers
        self.current_timestamp: int | None = None
        self.current_domain: TimeDomain | None = None

    def timestamp(self) -> int | None:
        return self.current_timestamp

    def get_current_key(self) -> Any:
        return self._keys.key

    def timer_service(self) -> TimerService:
        return self

    def time_domain(self) -> TimeDomain:
        if self.current_domain is None:
            raise StateError("time_domain() is available only inside on_timer()")
        return self.current_domain

    def current_processing_time(self) -> int:
        return self._operator.processing_time

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._processing_timers.register(timer_time(timestamp), self._keys.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._event_timers.register(timer_time(timestamp), self._keys.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._processing_timers.delete(timer_time(timestamp), self._keys.key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._event_timers.delete(timer_time(timestamp), self._keys.key)


class KeyedOperator(Operator):
    """Base class of keyed operators with timers: the key context, and the firing of timers."""

    #: The name in errors of the method that timers call.
    timer_method = "on_timer"

    def __init__(self, function: Any, context: OperatorContext) -> None:
        super().__init__(context)
        if context.backend is None:
            raise StateError(f"{context.where} needs a keyed stream: call key_by() before it")
        self.backend = context.backend
        self.function = function
        self.function_context = KeyedContext(self, context.backend)
        # transient
        #: The records that timers have emitted, with timestamps.
        self._values: list[Any] = []
        self._timestamps: list[int] = []

    def functions(self) -> list[Any]:
        return [self.function]

    @property
    def record_timestamp(self) -> int | None:
        context = self.function_context
        return None if context.current_domain is TimeDomain.PROCESSING_TIME else context.current_timestamp

    def begin_epoch(self, processing_time: int) -> None:
        super().begin_epoch(processing_time)
        self.fire(self.backend.processing_timers, processing_time, TimeDomain.PROCESSING_TIME)

    def watermark(self, watermark: int) -> None:
        self.current_watermark = watermark
        self.fire(self.backend.event_timers, watermark, TimeDomain.EVENT_TIME)
        self.output.watermark(watermark)

    def end_keys(self) -> None:
        """Advance both clocks to the end for the current keys, event time first: all their timers fire."""
        self.current_watermark = MAX_TIME
        events, processing = self.backend.event_timers, self.backend.processing_timers
        while events.peek() is not None or processing.peek() is not None:
            self.fire(events, MAX_TIME, TimeDomain.EVENT_TIME)
            self.fire(processing, MAX_TIME, TimeDomain.PROCESSING_TIME)
        self.current_watermark = MIN_TIME

    def end_epoch(self) -> None:
        # Timers registered for a time that has already passed fire in the same epoch.
        self.fire(self.backend.processing_timers, self.processing_time, TimeDomain.PROCESSING_TIME)
        self.backend.context.leave()

    def fire(self, queue: Any, until: int, domain: TimeDomain) -> None:
        """Fire all timers up to ``until`` in order of time, including those that are registered in the process."""
        timer = queue.pop_due(until)  # a failure here belongs to no key
        if timer is None:
            return
        keys, context, by_event_time = self.backend.context, self.function_context, domain is TimeDomain.EVENT_TIME
        on_time = self._on_time
        context.current_domain = domain
        try:
            while timer is not None:
                time, keys.key, namespace = timer
                context.current_timestamp = time
                on_time(time, namespace, by_event_time)
                timer = queue.pop_due(until)
        except BaseException as error:
            raise self.failed(error, method=self.timer_method, key=keys.key) from error
        finally:
            context.current_timestamp = context.current_domain = None
        self._emit_fired(by_event_time)

    def _on_time(self, time: int, namespace: Any, by_event_time: bool) -> None:
        """Handle a timer of the current key that is due."""
        self._collect(self.function.on_timer(time, self.function_context), time)

    def _collect(self, results: Iterable[Any] | None, timestamp: int) -> None:
        """Buffer what a timer emits until all timers that are due have fired."""
        if results is not None:
            values = self._values
            before = len(values)
            self.output.emissions.extend_of(values)(results)
            self._timestamps += [timestamp] * (len(values) - before)

    def _emit_fired(self, by_event_time: bool) -> None:
        # Processing time is not event time: the output of such a timer has no timestamps.
        self._flush(with_timestamps=by_event_time)

    def _flush(self, *, with_timestamps: bool = True) -> None:
        if self._values:
            values, timestamps = self._values, self._timestamps
            self._values, self._timestamps = [], []
            self.output.emit_tagged(values, timestamps if with_timestamps else None)

    def abandon(self) -> None:
        self._values, self._timestamps = [], []

    def run(self, batch: Batch, call: Callable[[Any, Any], Iterable[Any] | None]) -> None:
        """Call the function for every record of a batch with its key set, then emit the results."""
        self.output.emit_tagged(*flat_map_each(self, batch, call, self.function_context, with_context=True))


class KeyedProcessOperator(KeyedOperator):
    """process on a keyed stream."""

    def __init__(self, spec: ProcessSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)

    def process(self, batch: Batch, input_index: int) -> None:
        self.run(batch, self.function.process_element)

    def fire(self, queue: Any, until: int, domain: TimeDomain) -> None:
        if not self.function._timers_wait:
            super().fire(queue, until, domain)


class ReduceOperator(Operator):
    """reduce, and built-in aggregates: emits the new value for every record; in BATCH mode only the last one per key.

    The result of an aggregate function is emitted together with its key.
    """

    STATE = "_reduce_state"

    def __init__(self, spec: ReduceSpec, context: OperatorContext) -> None:
        super().__init__(context)
        if context.backend is None:
            raise StateError(f"{context.where} needs a keyed stream: call key_by() before it")
        self._backend = context.backend
        self._function = spec.function
        self._columnar = columnar(spec.function) if context.plan.takes_columns else None
        self._batch_mode = context.runtime_mode == "BATCH"
        self._accumulator_type = spec.accumulator_type
        #: The event time of the current record.
        self.current_timestamp: int | None = None

    def functions(self) -> list[Any]:
        return [self._function]

    def open(self) -> None:
        super().open()
        function, output_type = self._function, self.context.plan.output_type
        self._state: Any
        self._get: Callable[[], Any]
        if isinstance(function, AggregateFunction):
            aggregating = AggregatingStateDescriptor(self.STATE, function, self._accumulator_type)
            self._state = self._backend.aggregating_state(aggregating)
            self._get = lambda: (self._backend.context.key, self._state.get())
        else:
            reducing = ReducingStateDescriptor(self.STATE, method_of(function, "reduce"), output_type)
            self._state = self._backend.reducing_state(reducing)
            self._get = self._state.get
        add, get, take = self._state.add, self._get, self.output.emissions.take

        def step(value: Any) -> Any:
            add(value)
            return get()

        def taken_step(value: Any) -> Any:
            add(value)
            return take(get())

        self._step, self._taken_step = step, taken_step

    def process(self, batch: Batch, input_index: int) -> None:
        if self._columnar is not None and isinstance(batch, ColumnBatch):
            if self._backend.prefetches and batch.keys is not None:
                self._backend.prefetch(batch.keys)
            results = self._columnar.rolling(batch, self._state)
            if results is not None:
                self.output.emit_batch(results)
                return
        if self._batch_mode:
            map_each(self, batch, self._state.add, self)
        else:
            call = self._taken_step if self.output.emissions.looks else self._step
            self.output.emit(map_each(self, batch, call, self), batch.timestamps)

    def end_keys(self) -> None:
        results = []
        for key in self._backend.keys(self.STATE):
            self._backend.context.key = key
            results.append(self._get())
        self.output.emit(results, None)

    def end_epoch(self) -> None:
        self._backend.context.leave()
