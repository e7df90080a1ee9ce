"""Operators on a data stream and a broadcast stream."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tidemill.datastream.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from tidemill.datastream.functions.state import BroadcastState, ReadOnlyBroadcastState
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor, StateDescriptor
from tidemill.datastream.program.specs import BroadcastProcessSpec
from tidemill.errors import StateError
from tidemill.runtime.batch.records import MAX_TIME, Batch
from tidemill.runtime.operators.base import Operator, OperatorContext, method_of
from tidemill.runtime.operators.keyed import KeyedContext, KeyedOperator
from tidemill.runtime.operators.record_loops import flat_map_each
from tidemill.state.operator.maps import OperatorMapState, ReadOnlyMapState

#: The maximum number of bytes of records that are buffered in memory. Beyond that, they go to a temporary file.
_HELD_IN_MEMORY: Final = 32 << 20


class BroadcastStates:
    """The broadcast states of an operator, by descriptor."""

    def __init__(self, descriptors: Iterable[MapStateDescriptor], context: OperatorContext) -> None:
        self._descriptors = {descriptor.name: descriptor for descriptor in descriptors}
        self._context = context
        self._states: dict[str, OperatorMapState] = {}
        self._read_only: dict[str, ReadOnlyMapState] = {}

    def open(self) -> None:
        """Register all states. They then contain the restored entries."""
        backend = self._context.operator_state
        if backend is None:
            raise StateError(f"{self._context.where} has no operator state")
        for name, descriptor in self._descriptors.items():
            state = self._states[name] = backend.get_broadcast_state(descriptor)
            self._read_only[name] = ReadOnlyMapState(state, name, self._context.where)

    def get(self, descriptor: MapStateDescriptor) -> OperatorMapState:
        """Return a writable state."""
        return self._states[self._known(descriptor)]

    def read(self, descriptor: MapStateDescriptor) -> ReadOnlyMapState:
        """Return a read-only state."""
        return self._read_only[self._known(descriptor)]

    def _known(self, descriptor: MapStateDescriptor) -> str:
        name = descriptor.name
        known = self._descriptors.get(name)
        if known is descriptor:
            return name
        if known is None:
            names = ", ".join(map(repr, self._descriptors))
            raise StateError(
                f"{self._context.where} has no broadcast state {name!r}; the stream was broadcast with {names}"
            )
        if known.type_info != descriptor.type_info:
            raise StateError(
                f"{self._context.where}: the stream was broadcast with {known!r}, but {descriptor!r} was requested"
            )
        # The function has its own copy of the descriptor: it is compared only once.
        self._descriptors[name] = descriptor
        return name


class _Clock:
    """The common part of both contexts of a function with a broadcast side: clocks and the current timestamp."""

    def __init__(self, operator: Operator, states: BroadcastStates) -> None:
        self._operator = operator
        self._states = states
        self.current_timestamp: int | None = None

    def timestamp(self) -> int | None:
        return self.current_timestamp

    def current_processing_time(self) -> int:
        return self._operator.processing_time

    def current_watermark(self) -> int:
        return self._operator.current_watermark


class _DataContext(_Clock, BroadcastProcessFunction.ReadOnlyContext):
    """The context of the data side of a non-keyed stream."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.read(state_descriptor)


class _BroadcastContext(_Clock, BroadcastProcessFunction.Context):
    """The context of the broadcast side of a non-keyed stream."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.get(state_descriptor)


class _KeyedDataContext(KeyedContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of the data side of a keyed stream, also for timers."""

    def __init__(self, operator: KeyedOperator, states: BroadcastStates) -> None:
        super().__init__(operator, operator.backend)
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.read(state_descriptor)


class _KeyedBroadcastContext(_BroadcastContext, KeyedBroadcastProcessFunction.Context):
    """The context of the broadcast side of a keyed stream."""

    _operator: KeyedBroadcastOperator

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Any) -> None:
        self._operator.apply_to_keyed_state(state_descriptor, method_of(function, "process"))


class _HeldBack:
    """A buffer of records in order of arrival, on disk if it is large."""

    def __init__(self) -> None:
        # Closed as soon as it has been read. If the subtask fails before, the garbage collector closes it.
        self._file = tempfile.SpooledTemporaryFile(max_size=_HELD_IN_MEMORY, prefix="tidemill-held-")  # noqa: SIM115
        self._batches = 0

    def add(self, batch: Batch) -> None:
        """Add a batch."""
        pickle.dump((batch.values, batch.timestamps), self._file, 5)
        self._batches += 1

    def take(self) -> Iterator[Batch]:
        """Remove and return all batches."""
        self._file.seek(0)
        for _ in range(self._batches):
            yield Batch(*pickle.load(self._file))
        self._batches = 0
        self._file.close()


def _run(operator: Operator, batch: Batch, context: _Clock, method: Callable[[Any, Any], Any], name: str) -> None:
    """Call a method for every record of a batch, then emit the results."""
    outputs = flat_map_each(operator, batch, method, context, with_context=True, method=name)
    operator.output.emit_tagged(*outputs)


class BroadcastProcessOperator(Operator):
    """process on a non-keyed stream and a broadcast stream."""

    def __init__(self, spec: BroadcastProcessSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._states = BroadcastStates(spec.descriptors, context)
        self._data_context = _DataContext(self, self._states)
        self._broadcast_context = _BroadcastContext(self, self._states)
        # In BATCH mode the data side waits until the broadcast side is complete.
        self._held = _HeldBack() if context.runtime_mode == "BATCH" else None

    def functions(self) -> list[Any]:
        return [self._function]

    def initialize_state(self, restored: int | None) -> None:
        self._states.open()
        super().initialize_state(restored)

    def process(self, batch: Batch, input_index: int) -> None:
        if input_index == 1:
            method = self._function.process_broadcast_element
            _run(self, batch, self._broadcast_context, method, "process_broadcast_element")
        elif self._held is not None:
            self._held.add(batch)
        else:
            self._process_data(batch)

    def watermark(self, watermark: int) -> None:
        if watermark == MAX_TIME and self._held is not None:
            for batch in self._held.take():
                self._process_data(batch)
        super().watermark(watermark)

    def _process_data(self, batch: Batch) -> None:
        _run(self, batch, self._data_context, self._function.process_element, "process_element")


class KeyedBroadcastOperator(KeyedOperator):
    """process on a keyed stream and a broadcast stream."""

    def __init__(self, spec: BroadcastProcessSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)
        self._states = BroadcastStates(spec.descriptors, context)
        self.function_context = _KeyedDataContext(self, self._states)
        self._broadcast_context = _KeyedBroadcastContext(self, self._states)

    def initialize_state(self, restored: int | None) -> None:
        self._states.open()
        super().initialize_state(restored)

    def process(self, batch: Batch, input_index: int) -> None:
        if input_index == 0:
            self.run(batch, self.function.process_element)
            return
        self.backend.context.leave()
        method = self.function.process_broadcast_element
        _run(self, batch, self._broadcast_context, method, "process_broadcast_element")

    def apply_to_keyed_state(self, descriptor: StateDescriptor, visit: Callable[[Any, Any], None]) -> None:
        """Call ``visit(key, state)`` for every key of this subtask that has an entry in the state."""
        state = self.backend.keyed_state(descriptor)
        keys = self.backend.context
        try:
            for keys.key in list(self.backend.keys(descriptor.name)):
                visit(keys.key, state)
        finally:
            keys.leave()
