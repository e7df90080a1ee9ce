"""Operators on two connected streams."""

from __future__ import annotations

from typing import Any

from tidemill.datastream.program.specs import CoFlatMapSpec, CoMapSpec, CoProcessSpec, FlatMapSpec, MapSpec, ProcessSpec
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.keyed import KeyedOperator
from tidemill.runtime.operators.stateless import FlatMapOperator, MapOperator, PlainContext, ProcessOperator


class _Side:
    """Presents one method of a two-input function as a one-input function."""

    def __init__(self, name: str, method: Any) -> None:
        setattr(self, name, method)


class _TwoSided(Operator):
    """Runs a one-input operator for each side, with the same function, state and output."""

    def __init__(self, function: Any, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = function
        self._sides = (self._side(1), self._side(2))

    def functions(self) -> list[Any]:
        return [self._function]

    def _side(self, number: int) -> Operator:
        raise NotImplementedError

    @property
    def record_timestamp(self) -> int | None:
        first, second = self._sides
        return second.record_timestamp if first.record_timestamp is None else first.record_timestamp

    def begin_epoch(self, processing_time: int) -> None:
        super().begin_epoch(processing_time)
        for side in self._sides:
            side.processing_time = processing_time

    def process(self, batch: Batch, input_index: int) -> None:
        side = self._sides[input_index]
        side.current_watermark = self.current_watermark
        side.process(batch, 0)

    def end_epoch(self) -> None:
        if self.context.backend is not None:
            self.context.backend.context.leave()


class _CoMapSide(MapOperator):
    """One side of a map on connected streams, where None means no record."""

    def process(self, batch: Batch, input_index: int) -> None:
        results = Batch(self._apply(batch), batch.timestamps)
        if type(None) in set(map(type, results.values)):
            results = results.where([value is not None for value in results.values])
        self._emit(results.values, results.timestamps)


class CoMapOperator(_TwoSided):
    """map on connected streams: map1 for the first, map2 for the second."""

    def __init__(self, spec: CoMapSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)

    def _side(self, number: int) -> Operator:
        return _CoMapSide(MapSpec(_Side("map", getattr(self._function, f"map{number}"))), self.context)


class CoFlatMapOperator(_TwoSided):
    """flat_map on connected streams."""

    def __init__(self, spec: CoFlatMapSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)

    def _side(self, number: int) -> Operator:
        method = getattr(self._function, f"flat_map{number}")
        return FlatMapOperator(FlatMapSpec(_Side("flat_map", method)), self.context)


class CoProcessOperator(_TwoSided):
    """process on non-keyed connected streams."""

    def __init__(self, spec: CoProcessSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)

    def _side(self, number: int) -> Operator:
        method = getattr(self._function, f"process_element{number}")
        return ProcessOperator(ProcessSpec(_Side("process_element", method)), self.context)


class KeyedCoProcessOperator(KeyedOperator):
    """process on keyed connected streams: both sides share state, timers and the current key."""

    def __init__(self, spec: CoProcessSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)
        self._calls = (spec.function.process_element1, spec.function.process_element2)

    def process(self, batch: Batch, input_index: int) -> None:
        self.run(batch, self._calls[input_index])


__all__ = ["CoFlatMapOperator", "CoMapOperator", "CoProcessOperator", "KeyedCoProcessOperator", "PlainContext"]
