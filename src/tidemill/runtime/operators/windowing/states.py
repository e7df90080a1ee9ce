"""State of windows: keyed state whose namespace is the window."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from tidemill.datastream.functions.base import KeyedStateStore
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import StateError
from tidemill.state.keyed.backend import KeyedStateBackend


class WindowStates:
    """The states of windows, found by their descriptors.

    A state that is also used without a window (``global_state()``) stays as it is: what is handed out here is an object
    of its own over the same entries.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        self._known: dict[str, tuple[StateDescriptor, Any]] = {}

    def at(self, descriptor: StateDescriptor, window: Any) -> Any:
        """The state of the current key in a window."""
        known = self._known.get(descriptor.name)
        if known is None or known[0] is not descriptor:
            registered = self._backend.keyed_state(descriptor)
            state = copy.copy(registered) if known is None else known[1]
            known = self._known[descriptor.name] = (descriptor, state)
        known[1].set_current_namespace(window)
        return known[1]


class PerWindowStore(KeyedStateStore):
    """``window_state()`` of windows that do not merge."""

    def __init__(self, states: WindowStates) -> None:
        self._states = states
        self.window: Any = None

    def _keyed_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._states.at(state_descriptor, self.window)


class NoWindowStore(KeyedStateStore):
    """``window_state()`` of windows that merge: nobody could tell how state of a user function merges."""

    window: Any = None

    def _keyed_state(self, state_descriptor: StateDescriptor) -> NoReturn:
        raise StateError(
            f"window_state() cannot hold state {state_descriptor.name!r}: per-window state is not allowed with windows "
            "that merge. Use global_state()"
        )
