"""``map_with_state`` and its relatives as process functions over one value state.

The user's function takes ``(value, state)``, where state is None for a key seen first, and returns
``(result, new state)``; a new state of None forgets the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.process import KeyedProcessFunction
from tidemill.datastream.functions.state import ValueState, ValueStateDescriptor
from tidemill.datastream.functions.state_descriptors import TypeSpec

#: Name of the state, as part of what a savepoint holds.
STATE_NAME = "with-state"

WithState = Callable[[Any, Any], tuple[Any, Any]]


class _FunctionWithState(KeyedProcessFunction):
    """Base: keeps the state of the current key."""

    def __init__(self, function: WithState, state_type: TypeSpec = None) -> None:
        if not callable(function):
            raise TypeError(f"a callable of value and state is needed, not {type(function).__name__}")
        self.function = function
        self.descriptor = ValueStateDescriptor(STATE_NAME, state_type)
        self._state: ValueState[Any] | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._state = runtime_context.get_state(self.descriptor)

    def call(self, value: Any) -> Any:
        """Call the user's function with the key's state; keep the state it returns, hand on the result."""
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
    """The result is the one record that comes out."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Map one record."""
        return (self.call(value),)


class FlatMapWithState(_FunctionWithState):
    """The result is an iterable of the records that come out, or None."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Flat-map one record."""
        result: Iterable[Any] | None = self.call(value)
        return result


class FilterWithState(_FunctionWithState):
    """The result tells whether the record stays."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Filter one record."""
        return (value,) if self.call(value) else ()
