"""``as_queryable_state``: a keyed stream that ends in a queryable state."""

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
    """The end of a keyed stream whose records are stored in a queryable state. It has no output."""

    def __init__(self, name: str, descriptor: StateDescriptor, key_type: TypeInformation | None) -> None:
        self._name = name
        self._descriptor = descriptor
        self._key_type = key_type

    def get_queryable_state_name(self) -> str:
        """The queryable state name."""
        return self._name

    def get_state_descriptor(self) -> StateDescriptor:
        """The descriptor of the state, which clients also need."""
        return self._descriptor

    def get_key_type(self) -> TypeInformation | None:
        """The type of the keys, or None if not declared."""
        return self._key_type


class PublishedState(KeyedProcessFunction):
    """Stores each record in the state of its key and emits nothing."""

    def __init__(self, descriptor: ValueStateDescriptor | ReducingStateDescriptor) -> None:
        self.descriptor = descriptor
        self._state: ValueState[Any] | ReducingState[Any] | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Gets the state."""
        if isinstance(self.descriptor, ReducingStateDescriptor):
            self._state = runtime_context.get_reducing_state(self.descriptor)
        else:
            self._state = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Stores the record, or adds it to the reduction of the previous ones."""
        state = self._state
        if isinstance(state, ReducingState):
            state.add(value)
        elif state is not None:
            state.update(value)


def published_state(
    name: str, descriptor: StateDescriptor | None, type_info: TypeInformation | None
) -> ValueStateDescriptor | ReducingStateDescriptor:
    """The descriptor of the queryable state: the given one, or by default the last record of each key."""
    if not name:
        raise ValueError(f"the queryable state name must not be {name!r}")
    found = ValueStateDescriptor(name, type_info) if descriptor is None else descriptor
    if not isinstance(found, (ValueStateDescriptor, ReducingStateDescriptor)):
        raise TypeError(
            f"as_queryable_state() keeps one value per key: it needs a ValueStateDescriptor or a "
            f"ReducingStateDescriptor, not {type(found).__name__}; for other states use set_queryable() in a function"
        )
    if found.queryable_name not in (None, name):
        raise ValueError(f"state {found.name!r} is already queryable as {found.queryable_name!r}, not as {name!r}")
    found.set_queryable(name)
    return found
