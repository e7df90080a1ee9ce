"""Keyed states of one value per key, on the tables of any backend: value, reducing and aggregating state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidemill.datastream.functions.state import AggregatingState, ReducingState, ValueState
from tidemill.state.codecs.copies import ATOMIC, detached
from tidemill.state.keyed.context import KeyContext
from tidemill.state.keyed.keyed_state import KeyedState
from tidemill.state.keyed.tables import DELETED, MISSING, ValueTable


class SingleValueState(KeyedState):
    """One value per key: a read checks the overlay, then the base, and copies values that could be mutated."""

    _table: ValueTable

    def _get(self) -> Any:
        key = self._context.key
        value = self._overlay.get(key, MISSING)
        if value is MISSING:
            value = self._base.get(key, MISSING)
            if value is not MISSING and type(value) not in ATOMIC:
                value = self._copy_of(key, value)
        elif value is DELETED:
            return MISSING
        return value

    def _copy_of(self, key: Any, value: Any) -> Any:
        copied = self._reads.get(key, MISSING)
        if copied is MISSING:
            copied = self._reads[key] = self._table.detached(value)
        return copied

    def _put(self, value: Any) -> None:
        if value is MISSING:
            self.clear()
        else:
            self._overlay[self._context.key] = value if type(value) is self._kind else self._formed(value)

    def get_each(self, keys: Sequence[Any]) -> list[Any]:
        """The stored content of each key, None if there is none. Callers must not change it."""
        written, base = self._overlay.get, self._base.get
        found = [written(key) for key in keys]
        for place, value in enumerate(found):
            if value is None:
                found[place] = base(keys[place])
            elif value is DELETED:
                found[place] = None
        return found

    def new_each(self, keys: Sequence[Any]) -> list[Any]:
        """The keys among these that are new in this epoch, or that it has removed."""
        written = self._overlay.get
        return [key for key in keys if (value := written(key)) is None or value is DELETED]

    def put_each(self, keys: Sequence[Any], contents: Sequence[Any]) -> None:
        """Store a content for each key, which nobody changes afterwards."""
        if set(map(type, contents)) - {self._kind}:
            contents = [content if type(content) is self._kind else self._formed(content) for content in contents]
        self._overlay.update(zip(keys, contents, strict=True))

    def replace(self, content: Any) -> None:
        self.clear()
        self._put(MISSING if content is None else content)

    def clear(self) -> None:
        """Remove the value of the current key."""
        key = self._context.key
        if key in self._base:
            self._overlay[key] = DELETED
        else:
            self._overlay.pop(key, None)


class KeyedValueState(SingleValueState, ValueState[Any]):
    """ValueState: one value per key, which the program sets."""

    def __init__(self, context: KeyContext, table: ValueTable, default: Any = None) -> None:
        super().__init__(context, table)
        self._default = default

    def value(self) -> Any:
        """The value of the current key, or the descriptor's default."""
        value = self._overlay.get(self._context.key, DELETED)
        if value is not DELETED:  # a hot key is found here: one lookup, one comparison
            return value
        key = self._context.key
        if key not in self._overlay:
            value = self._base.get(key, MISSING)
            if type(value) in ATOMIC:
                return value
            if value is not MISSING:
                return self._copy_of(key, value)
        return self._default if type(self._default) in ATOMIC else detached(self._default)

    def update(self, value: Any) -> None:
        """Set the value of the current key; None clears it, as in Flink."""
        if type(value) is self._kind:
            self._overlay[self._context.key] = value
        elif value is None:
            self.clear()
        else:
            self._overlay[self._context.key] = self._formed(value)

    def peek(self) -> Any:
        return self.value()

    def replace(self, content: Any) -> None:
        self.update(content)


class KeyedReducingState(SingleValueState, ReducingState[Any]):
    """ReducingState: stores only the reduced value."""

    def __init__(self, context: KeyContext, table: ValueTable, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(context, table)
        self._reduce = reduce

    def get(self) -> Any:
        """The reduced value, or None."""
        value = self._get()
        return None if value is MISSING else value

    def add(self, value: Any) -> None:
        """Reduce one more value into the state; None clears it, as in Flink."""
        if value is None:
            self.clear()
            return
        current = self._get()
        if current is not MISSING:
            value = self._reduce(current, value)
        self._overlay[self._context.key] = value if type(value) is self._kind else self._formed(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Like :meth:`add`, for several values of the current key."""
        reduced, reduce = self._get(), self._reduce
        for value in values:
            if value is None:
                reduced = MISSING
            else:
                reduced = value if reduced is MISSING else reduce(reduced, value)
                if type(reduced) is not self._kind:
                    reduced = self._formed(reduced)
        self._put(reduced)

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        """Like :meth:`add`, one value for each key; returns the keys that are new in this epoch."""
        context, overlay, reduce = self._context, self._overlay, self._reduce
        new = []
        for key, value in zip(keys, values, strict=True):
            context.key = key
            current = overlay.get(key, MISSING)
            if current is MISSING or current is DELETED or value is None:
                new.append(key)
                self.add(value)
            else:
                reduced = reduce(current, value)
                overlay[key] = reduced if type(reduced) is self._kind else self._formed(reduced)
        return new

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of several namespaces into the target's, for the current key."""
        merge_single(self, target, sources, self._reduce)

    def peek(self) -> Any:
        return self.get()


class KeyedAggregatingState(SingleValueState, AggregatingState[Any, Any]):
    """AggregatingState: stores only the accumulator."""

    def __init__(self, context: KeyContext, table: ValueTable, aggregate: Any) -> None:
        super().__init__(context, table)
        self._aggregate = aggregate

    def get(self) -> Any:
        """The result of the accumulator, or None."""
        accumulator = self._get()
        return None if accumulator is MISSING else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator; None clears it, as in Flink."""
        if value is None:
            self.clear()
            return
        accumulator = self._get()
        if accumulator is MISSING:
            accumulator = self._aggregate.create_accumulator()
        accumulator = self._aggregate.add(value, accumulator)
        self._overlay[self._context.key] = accumulator if type(accumulator) is self._kind else self._formed(accumulator)

    def add_all(self, values: Iterable[Any]) -> None:
        """Like :meth:`add`, for several values of the current key."""
        accumulator, add = self._get(), self._aggregate.add
        for value in values:
            if value is None:
                accumulator = MISSING
            else:
                if accumulator is MISSING:
                    accumulator = self._aggregate.create_accumulator()
                accumulator = add(value, accumulator)
                if type(accumulator) is not self._kind:
                    accumulator = self._formed(accumulator)
        self._put(accumulator)

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        """Like :meth:`add`, one value for each key; returns the keys that are new in this epoch."""
        context, overlay, add = self._context, self._overlay, self._aggregate.add
        new = []
        for key, value in zip(keys, values, strict=True):
            context.key = key
            accumulator = overlay.get(key, MISSING)
            if accumulator is MISSING or accumulator is DELETED or value is None:
                new.append(key)
                self.add(value)
            else:
                accumulator = add(value, accumulator)
                overlay[key] = accumulator if type(accumulator) is self._kind else self._formed(accumulator)
        return new

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of several namespaces into the target's, for the current key."""
        merge_single(self, target, sources, self._aggregate.merge)

    def peek(self) -> Any:
        return self.get()


def merge_single(
    state: SingleValueState, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]
) -> None:
    """Fold the sources' values into the target namespace and clear the sources."""
    merged: Any = MISSING
    for source in sources:
        state.set_current_namespace(source)
        value = state._get()
        if value is not MISSING:
            state.clear()
            merged = value if merged is MISSING else state._formed(merge(merged, value))
    state.set_current_namespace(target)
    if merged is not MISSING:
        current = state._get()
        state._put(merged if current is MISSING else merge(current, merged))
