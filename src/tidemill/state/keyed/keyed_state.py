"""What every keyed state has: its table, its key context, and the layer of the current namespace.

Each object is bound once to its table and key context; per record only the key in the context changes. Namespaces
(windows) are switched with :meth:`KeyedState.set_current_namespace`, which swaps the layer that the object uses.
"""

from __future__ import annotations

from typing import Any

from tidemill.state.codecs.normal_form import Unknown
from tidemill.state.keyed.context import KeyContext
from tidemill.state.keyed.tables import Table


class KeyedState:
    """A state bound to a table; the layer of the current namespace is available as plain attributes.

    :mod:`tidemill.state.keyed.kinds` defines which class belongs to which kind of state, and its arguments.
    """

    def __init__(self, context: KeyContext, table: Table) -> None:
        self._context = context
        self._table = table
        form = table.form
        #: Values of this type are stored unchanged.
        self._kind: type = Unknown if form is None else form.kind
        self._convert = None if form is None else form.convert
        self._namespace: Any = None
        self._attach()

    def set_current_namespace(self, namespace: Any) -> None:
        """Switch to another namespace."""
        self._namespace = namespace
        self._attach()

    def begin_epoch(self) -> None:
        """Attach to the layer again: a fold may have dropped it."""
        self._attach()

    def keep_unshared(self) -> None:
        """Declare that values are never changed once they have been put, nor after being read: no copies are made."""
        self._table.unshared = True

    def peek(self) -> Any:
        """The content for the current key: a value, a list, a dict, a result. Available for all kinds of state."""
        raise NotImplementedError

    def replace(self, content: Any) -> None:
        """Replace the content for the current key: with a value, a list, a dict, an accumulator."""
        raise NotImplementedError

    def _formed(self, value: Any) -> Any:
        """Convert a value that is not of the expected type to its stored form."""
        if self._convert is not None:
            return self._convert(value)
        self._kind = type(value)  # any type is allowed: check again when another type appears
        return value

    def _attach(self) -> None:
        layer = self._table.layer(self._namespace)
        self._overlay = layer.overlay
        self._base = layer.base
        self._reads = layer.reads
