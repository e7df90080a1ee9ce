"""``as_queryable_state``: a keyed stream that ends in a state which others can look up by key."""

from __future__ import annotations

from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.process import KeyedProcessFunction
from tidemill.datastream.functions.state import ReducingState, ValueState
from tidemill.datastream.functions.state_descriptors import (
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

__all__ = ["PublishedState", "QueryableStateStream", "published_state"]


class QueryableStateStream:
    """The end of a keyed stream: its records are in a state with a name. Nothing can follow it."""

    def __init__(self, name: str, descriptor: StateDescriptor, key_type: TypeInformation | None) -> None:
        self._name = name
        self._descriptor = descriptor
        self._key_type = key_type

    def get_queryable_state_name(self) -> str:
        """The name that the state is queried by."""
        return self._name

    def get_state_descriptor(self) -> StateDescriptor:
        """The state, as a client must name it too."""
        return self._descriptor

    def get_key_type(self) -> TypeInformation | None:
        """The type of the keys, None if none is declared."""
        return self._key_type


class PublishedState(KeyedProcessFunction):
    """Puts each record into the state of its key, and emits none."""

    def __init__(self, descriptor: ValueStateDescriptor | ReducingStateDescriptor) -> None:
        self.descriptor = descriptor
        self._state: ValueState[Any] | ReducingState[Any] | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        if isinstance(self.descriptor, ReducingStateDescriptor):
            self._state = runtime_context.get_reducing_state(self.descriptor)
        else:
            self._state = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Keep the record, or what it makes of those before it."""
        state = self._state
        if isinstance(state, ReducingState):
            state.add(value)
        elif state is not None:
            state.update(value)


def published_state(
    name: str, descriptor: StateDescriptor | None, type_info: TypeInformation | None
) -> ValueStateDescriptor | ReducingStateDescriptor:
    """The state that a stream of these records is to be in: the one described, or the last record of each key."""
    if not name:
        raise ValueError(f"the name that a state is queried by cannot be {name!r}")
    found = ValueStateDescriptor(name, type_info) if descriptor is None else descriptor
    if not isinstance(found, (ValueStateDescriptor, ReducingStateDescriptor)):
        raise TypeError(
            f"as_queryable_state() keeps one value per key: it needs a ValueStateDescriptor or a "
            f"ReducingStateDescriptor, not {type(found).__name__}; for other states use set_queryable() in a function"
        )
    if found.queryable_name not in (None, name):
        raise ValueError(f"state {found.name!r} is queryable as {found.queryable_name!r} already, not as {name!r}")
    found.set_queryable(name)
    return found
