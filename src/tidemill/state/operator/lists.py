"""List state of a subtask: a list in memory, and its difference from the stored list."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidemill.datastream.functions.state import ListState
from tidemill.state.codecs.normal_form import NormalForm
from tidemill.state.files.rows import APPEND, DELETE, PUT, Rows
from tidemill.state.keys.key_groups import Subtask

#: Types whose values are equal only if they are identical in every respect.
_EXACT: Final = frozenset({int, str, bytes, bool})


@dataclass(frozen=True)
class Fingerprint:
    """The content of a list when it was stored, in immutable form, because its elements may be changed in place."""

    kind: type | None = None
    tokens: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, items: Sequence[Any]) -> Fingerprint:
        """The fingerprint of a list; equal fingerprints mean equal lists, but not all equal lists have equal ones."""
        kinds = set(map(type, items))
        if len(kinds) == 1 and kinds <= _EXACT:
            return cls(kinds.pop(), list(items))
        return cls(None, [_token(item) for item in items])

    def begins(self, other: Fingerprint) -> bool:
        """Whether the other list is equal to this one, or starts with it."""
        if not self.tokens:
            return True
        return self.kind is other.kind and other.tokens[: len(self.tokens)] == self.tokens


def _token(item: Any) -> Any:
    try:
        return pickle.dumps(item, 5)
    except Exception:  # anything a user's __reduce__ may raise; such an element counts as changed
        return object()


def change(stored: Fingerprint, now: Fingerprint, items: list[Any]) -> tuple[int, list[Any]] | None:
    """The operation that turns a stored list into the current one, and its elements: an append if it only grew."""
    count = len(stored.tokens)
    if not stored.begins(now):
        return (PUT, items) if items else (DELETE, [])
    if len(items) == count:
        return None
    return (APPEND, items[count:]) if count else (PUT, items)


class OperatorListState(ListState[Any]):
    """The list of one subtask, as its function sees it.

    ``own`` is the part that this subtask stores. A union list also contains, until it is replaced, the elements of the
    other subtasks at the time of the restore.
    """

    kind: Final = "list"

    def __init__(
        self,
        own: Sequence[Any],
        stored: Sequence[Any],
        union: Sequence[Any] | None = None,
        form: NormalForm | None = None,
    ) -> None:
        """``own`` is the subtask's part, ``stored`` the stored one, which differs after a change of parallelism.

        ``form`` is the form of stored elements; None: unchanged.
        """
        # configuration
        self.form = form
        # transient
        self._restored = None if union is None else list(union)
        self._restored_own = len(own)
        self._next: Fingerprint | None = None
        # checkpointed
        self.own = list(own)
        self._stored = Fingerprint.of(stored)

    def get(self) -> list[Any]:
        """The elements in order; empty if there are none."""
        return self._visible()

    def add(self, value: Any) -> None:
        """Append one element."""
        if value is None:
            raise ValueError("None cannot be added to a list state")
        self.own.append(value if self.form is None else self.form.put(value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several elements."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the whole list."""
        items = list(values)
        if any(item is None for item in items):
            raise ValueError("None cannot be an element of a list state")
        self.own = items if self.form is None else [self.form.put(item) for item in items]
        self._restored = None

    def clear(self) -> None:
        """Remove all elements."""
        self.update(())

    def content(self) -> list[Any]:
        """The list as the function sees it."""
        return self._visible()

    def entries(self) -> int:
        """The number of elements."""
        return len(self.own) + (0 if self._restored is None else len(self._restored) - self._restored_own)

    def undo_point(self) -> Callable[[], None]:
        """A function that restores the current list; elements that were changed in place stay changed."""
        own, restored = list(self.own), self._restored

        def restore() -> None:
            self.own, self._restored = own, restored

        return restore

    def export_delta(self, rows: Rows, subtask: Subtask) -> None:
        """Add the changes since the last fold."""
        self._next = Fingerprint.of(self.own)
        found = change(self._stored, self._next, self.own)
        if found is not None:
            _append(rows, subtask, *found)

    def export_all(self, rows: Rows, subtask: Subtask) -> None:
        """Add the whole list."""
        if self.own:
            _append(rows, subtask, PUT, self.own)

    def fold(self) -> None:
        """Mark the last export as committed. Elements then have the form in which storage returns them."""
        if self._next is None:
            return
        self._stored, self._next = self._next, None
        if self.form is not None and (settled := self.form.settled(self.own)) is not self.own:
            self.own, self._stored = settled, Fingerprint.of(settled)

    @staticmethod
    def export_removal(rows: Rows, subtask: Subtask) -> None:
        """Add the deletion of the state of a former subtask."""
        _append(rows, subtask, DELETE, [])

    def _visible(self) -> list[Any]:
        if self._restored is None:
            return list(self.own)
        return [*self._restored, *self.own[self._restored_own :]]


def _append(rows: Rows, subtask: Subtask, op: int, items: list[Any]) -> None:
    rows.keys.append(subtask)
    rows.ops.append(op)
    rows.values.append(items)
