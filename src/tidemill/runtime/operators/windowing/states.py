"""State of windows: keyed state whose namespace is the window."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from tidemill.datastream.functions.base import KeyedStateStore
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import StateError
from tidemill.state.keyed.backend import KeyedStateBackend


class WindowStates:
    """The states of windows, by descriptor.

    A state that is also used without a window (``global_state()``) is not affected: the objects returned here are
    separate ones with the same entries.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        self._known: dict[str, tuple[StateDescriptor, Any]] = {}

    def at(self, descriptor: StateDescriptor, window: Any) -> Any:
        """Return the state of the current key in a window."""
        known = self._known.get(descriptor.name)
        if known is None or known[0] is not descriptor:
            registered = self._backend.keyed_state(descriptor)
            state = copy.copy(registered) if known is None else known[1]
            known = self._known[descriptor.name] = (descriptor, state)
        known[1].set_current_namespace(window)
        return known[1]


class PerWindowStore(KeyedStateStore):
    """``window_state()`` of non-merging windows."""

    def __init__(self, states: WindowStates) -> None:
        self._states = states
        self.window: Any = None

    def _keyed_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._states.at(state_descriptor, self.window)


class NoWindowStore(KeyedStateStore):
    """``window_state()`` of merging windows, which is not supported: state of a user function cannot be merged."""

    window: Any = None

    def _keyed_state(self, state_descriptor: StateDescriptor) -> NoReturn:
        raise StateError(
            f"state {state_descriptor.name!r} cannot be used with window_state(): per-window state is not supported "
            "with windows that merge. Use global_state()"
        )
