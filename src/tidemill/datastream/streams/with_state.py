"""``map_with_state``, ``flat_map_with_state`` and ``filter_with_state`` as process functions with one value state.

The user's function is called with ``(value, state)``, where state is None for a new key, and returns
``(result, new state)``. A new state of None removes the state of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.process import KeyedProcessFunction
from tidemill.datastream.functions.state import ValueState, ValueStateDescriptor
from tidemill.datastream.functions.state_descriptors import TypeSpec

#: Name of the state in savepoints.
STATE_NAME = "with-state"

WithState = Callable[[Any, Any], tuple[Any, Any]]


class _FunctionWithState(KeyedProcessFunction):
    """Base class, which manages the state of the current key."""

    def __init__(self, function: WithState, state_type: TypeSpec = None) -> None:
        if not callable(function):
            raise TypeError(f"a callable of value and state is needed, not {type(function).__name__}")
        self.function = function
        self.descriptor = ValueStateDescriptor(STATE_NAME, state_type)
        self._state: ValueState[Any] | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Gets the state."""
        self._state = runtime_context.get_state(self.descriptor)

    def call(self, value: Any) -> Any:
        """Calls the user's function with the state of the key, stores the new state and returns the result."""
        state = self._state
        if state is None:
            raise RuntimeError("open() was not called")
        old = state.value()
        answer: Any = self.function(value, old)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(
                f"the function must return a pair (result, new state), not {type(answer).__name__}: {answer!r:.80}"
            )
        result, new = answer
        if new is not None:
            state.update(new)
        elif old is not None:
            state.clear()
        return result


class MapWithState(_FunctionWithState):
    """Emits the result as one record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Map one record."""
        return (self.call(value),)


class FlatMapWithState(_FunctionWithState):
    """Emits the records of the result, which is an iterable or None."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Flat-map one record."""
        result: Iterable[Any] | None = self.call(value)
        return result


class FilterWithState(_FunctionWithState):
    """Keeps the record if the result is true."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Filter one record."""
        return (value,) if self.call(value) else ()
