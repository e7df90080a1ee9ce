"""The contents of windows: all records, or the result of an incremental function."""

from __future__ import annotations

from operator import is_
from typing import Any

from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
)
from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.evictors import Evictor, TimestampedValue
from tidemill.runtime.operators.base import method_of
from tidemill.state.keyed.backend import KeyedStateBackend

CONTENTS = "window-contents"


class Contents:
    """The contents of the windows of all keys; ``state`` is set to the namespace of the current window."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def add(self, value: Any, timestamp: int | None) -> None:
        """Add one record."""
        self.state.add(value)

    def elements(self, window: Any) -> list[Any] | None:
        """Return the elements for the window function; None if the window is empty, and must not be evaluated."""
        raise NotImplementedError

    def evaluated(self, window: Any) -> None:
        """Called after the window function has processed the elements."""


class SingleContents(Contents):
    """One value, reduced or aggregated."""

    def elements(self, window: Any) -> list[Any] | None:
        value = self.state.get()
        return None if value is None else [value]


class ListContents(Contents):
    """All records, in order of arrival."""

    def elements(self, window: Any) -> list[Any] | None:
        elements: list[Any] = self.state.get()
        return elements or None


class EvictingContents(Contents):
    """All records with their timestamps. An evictor permanently removes some before or after each evaluation.

    An incremental function is applied to all remaining records at each evaluation.
    """

    def __init__(self, state: Any, spec: WindowSpec, context: Evictor.EvictorContext) -> None:
        super().__init__(state)
        # configuration
        self._evictor: Evictor = spec.evictor
        self._context = context
        self._reduce = None if spec.reduce is None else method_of(spec.reduce, "reduce")
        self._aggregate = spec.aggregate
        # transient
        self._held: list[TimestampedValue] = []
        self._before: list[TimestampedValue] = []

    def add(self, value: Any, timestamp: int | None) -> None:
        self.state.add(TimestampedValue(value, timestamp))

    def elements(self, window: Any) -> list[Any] | None:
        held = self._held = list(self.state.get())
        if not held:
            return None
        self._before = held[:]
        self._evictor.evict_before(held, len(held), window, self._context)
        return self._combined([element.value for element in held])

    def evaluated(self, window: Any) -> None:
        held, before = self._held, self._before
        self._evictor.evict_after(held, len(before), window, self._context)
        if len(held) != len(before) or not all(map(is_, held, before)):
            self.state.update(held)

    def _combined(self, values: list[Any]) -> list[Any]:
        if self._aggregate is not None:
            accumulator = self._aggregate.create_accumulator()
            for value in values:
                accumulator = self._aggregate.add(value, accumulator)
            return [self._aggregate.get_result(accumulator)]
        if self._reduce is None or not values:
            return values
        reduced = values[0]
        for value in values[1:]:
            reduced = self._reduce(reduced, value)
        return [reduced]


def make_contents(spec: WindowSpec, backend: KeyedStateBackend, context: Evictor.EvictorContext) -> Contents:
    """Register the state that the windows of an operator need."""
    if spec.evictor is not None:
        return EvictingContents(backend.list_state(ListStateDescriptor(CONTENTS)), spec, context)
    if spec.reduce is not None:
        return SingleContents(
            backend.reducing_state(ReducingStateDescriptor(CONTENTS, spec.reduce, spec.contents_type))
        )
    if spec.aggregate is not None:
        return SingleContents(
            backend.aggregating_state(AggregatingStateDescriptor(CONTENTS, spec.aggregate, spec.contents_type))
        )
    return ListContents(backend.list_state(ListStateDescriptor(CONTENTS, spec.contents_type)))
