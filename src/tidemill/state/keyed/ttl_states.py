"""Keyed states with a time to live: decorators over the states of any backend, which store :class:`Stamped` values.

As in Flink, reading an expired entry removes it, and returns it once more only if expired entries may be returned. A
value, a reduced value and an accumulator have one time of last access, a map has one per entry, a list one per element.
Reading a list does not rewrite it: expired elements are skipped, and removed with the last of them or by the cleanup.
Unlike in Flink, a map whose entries have all expired is empty.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.state import (
    AggregatingState,
    Entries,
    ListState,
    MapState,
    ReducingState,
    ValueState,
    pairs_of,
)
from tidemill.python_versions import Self
from tidemill.state.codecs.copies import detached
from tidemill.state.codecs.ttl import Stamped
from tidemill.state.files.ttl_declared import DeclaredTtl
from tidemill.state.keyed.elements import Elements
from tidemill.state.keyed.ttl_cleanup import Sweeper

__all__ = [
    "TtlAggregatingState",
    "TtlListState",
    "TtlMapState",
    "TtlReducingState",
    "TtlSingleState",
    "TtlState",
    "TtlValueState",
]


class TtlState:
    """The common part: the state that stores the values, the clock, and the cleanup that accesses trigger."""

    def __init__(self, inner: Any, ttl: DeclaredTtl) -> None:
        self._inner = inner
        self._ttl = ttl
        self._namespace: Any = None
        self._sweeper: Sweeper | None = None
        self._accessed: Callable[[], None] = _nothing

    def __copy__(self) -> Self:
        """Another object over the same entries, with its own current namespace."""
        twin = object.__new__(type(self))
        twin.__dict__ |= self.__dict__ | {"_inner": copy.copy(self._inner)}
        return twin

    def cleaned_by(self, sweeper: Sweeper) -> None:
        """Let accesses and epochs trigger a cleanup."""
        self._sweeper = sweeper
        if sweeper.per_access:
            self._accessed = sweeper.access

    def set_current_namespace(self, namespace: Any) -> None:
        """Switch to another namespace."""
        self._namespace = namespace
        self._inner.set_current_namespace(namespace)

    def begin_epoch(self) -> None:
        """Begin a new epoch, whose clock is set."""
        self._inner.begin_epoch()
        if self._sweeper is not None:
            self._sweeper.begin_epoch()

    def clear(self) -> None:
        """Remove everything stored for the current key."""
        self._accessed()
        self._inner.clear()

    def peek(self) -> Any:
        """The visible content for the current key, without counting as an access."""
        raise NotImplementedError

    def replace(self, content: Any) -> None:
        """Replace the content for the current key, as accessed now: see :meth:`KeyedState.replace`."""
        raise NotImplementedError

    def purge(self, namespace: Any, user_key: Any) -> None:
        """Remove the expired part of one entry of the current key."""
        if namespace != self._namespace:
            self._inner.set_current_namespace(namespace)
        self._purge(user_key)
        if namespace != self._namespace:
            self._inner.set_current_namespace(self._namespace)

    def _purge(self, user_key: Any) -> None:
        raise NotImplementedError

    def _expired(self, stamped: Stamped) -> bool:
        return self._ttl.expired(stamped.time, self._ttl.now())

    def _visible(self, stamped: Stamped | None) -> Stamped | None:
        if stamped is None or (not self._ttl.return_expired and self._expired(stamped)):
            return None
        return stamped

    def _checked(self, stamped: Any, remove: Callable[[], None], store: Callable[[Stamped], None]) -> Stamped | None:
        """The result of a read; removes the entry if it has expired, or renews it if reads do so."""
        if stamped is None:
            return None
        found: Stamped = stamped
        ttl = self._ttl
        now = ttl.now()
        if not ttl.on_read and found.time + ttl.millis > now:
            return found
        if ttl.expired(found.time, now):
            remove()
            return found if ttl.return_expired else None
        if ttl.on_read:
            time = ttl.access_time()
            if time > found.time:
                store(Stamped(found.value, time))
        return found


class TtlSingleState(TtlState):
    """One stamped value per key, in a value state."""

    def _read(self) -> Stamped | None:
        self._accessed()
        return self._checked(self._inner.value(), self._inner.clear, self._inner.update)

    def _purge(self, user_key: Any) -> None:
        stamped = self._inner.value()
        if stamped is not None and self._expired(stamped):
            self._inner.clear()

    def _combine(self, value: Any, time: int, merge: Callable[[Any, Any], Any]) -> None:
        """Merge a value into the current one; the later time is kept."""
        current = self._visible(self._inner.value())
        if current is not None:
            value, time = merge(current.value, value), max(current.time, time)
        self._inner.update(Stamped(value, time))

    def _merge_namespaces(self, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        self._accessed()
        merged: Stamped | None = None
        for source in sources:
            self.set_current_namespace(source)
            stamped = self._inner.value()
            if stamped is None:
                continue
            self._inner.clear()
            if self._visible(stamped) is not None:
                merged = (
                    stamped
                    if merged is None
                    else Stamped(merge(merged.value, stamped.value), max(merged.time, stamped.time))
                )
        self.set_current_namespace(target)
        if merged is not None:
            self._combine(merged.value, merged.time, merge)

    def replace(self, content: Any) -> None:
        self._inner.update(Stamped(content, self._ttl.access_time()))


class TtlValueState(TtlSingleState, ValueState[Any]):
    """ValueState whose value expires."""

    def __init__(self, inner: Any, ttl: DeclaredTtl, default: Any = None) -> None:
        super().__init__(inner, ttl)
        self._default = default

    def value(self) -> Any:
        """The value of the current key, or the descriptor's default."""
        found = self._read()
        return detached(self._default) if found is None else found.value

    def update(self, value: Any) -> None:
        """Set the value of the current key; None clears it, as in Flink."""
        self._accessed()
        if value is None:
            self._inner.clear()
        else:
            self._inner.update(Stamped(value, self._ttl.access_time()))

    def replace(self, content: Any) -> None:
        self.update(content)

    def peek(self) -> Any:
        found = self._visible(self._inner.value())
        return detached(self._default) if found is None else found.value


class TtlReducingState(TtlSingleState, ReducingState[Any]):
    """ReducingState whose reduced value expires as a whole."""

    def __init__(self, inner: Any, ttl: DeclaredTtl, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(inner, ttl)
        self._reduce = reduce

    def get(self) -> Any:
        """The reduced value, or None."""
        found = self._read()
        return None if found is None else found.value

    def add(self, value: Any) -> None:
        """Reduce one more value into the state, which no longer includes an expired one; None clears it."""
        self._accessed()
        if value is None:
            self._inner.clear()
            return
        self._combine(value, self._ttl.access_time(), self._reduce)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of several namespaces into the target's, for the current key."""
        self._merge_namespaces(target, sources, self._reduce)

    def peek(self) -> Any:
        found = self._visible(self._inner.value())
        return None if found is None else found.value


class TtlAggregatingState(TtlSingleState, AggregatingState[Any, Any]):
    """AggregatingState whose accumulator expires as a whole."""

    def __init__(self, inner: Any, ttl: DeclaredTtl, aggregate: Any) -> None:
        super().__init__(inner, ttl)
        self._aggregate = aggregate

    def get(self) -> Any:
        """The result of the accumulator, or None."""
        found = self._read()
        return None if found is None else self._aggregate.get_result(found.value)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator, which is created again if it has expired; None clears it."""
        self._accessed()
        if value is None:
            self._inner.clear()
            return
        current = self._visible(self._inner.value())
        time = self._ttl.access_time()
        if current is None:
            accumulator = self._aggregate.create_accumulator()
        else:
            accumulator, time = current.value, max(current.time, time)
        self._inner.update(Stamped(self._aggregate.add(value, accumulator), time))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of several namespaces into the target's, for the current key."""
        self._merge_namespaces(target, sources, self._aggregate.merge)

    def peek(self) -> Any:
        found = self._visible(self._inner.value())
        return None if found is None else self._aggregate.get_result(found.value)


class TtlListState(TtlState, ListState[Any]):
    """ListState whose elements expire one by one."""

    def get(self) -> list[Any]:
        """The elements of the current key in order; empty if there are none."""
        self._accessed()
        elements: list[Stamped] = list(self._inner.get())
        alive = self._alive(elements)
        if elements and not alive:
            self._inner.clear()
        elif self._ttl.on_read:
            self._renew(alive)
        return [element.value for element in (elements if self._ttl.return_expired else alive)]

    def add(self, value: Any) -> None:
        """Append one element."""
        self._accessed()
        self._inner.add(self._stamped(value, self._ttl.access_time()))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several elements."""
        self._accessed()
        time = self._ttl.access_time()
        self._inner.add_all([self._stamped(value, time) for value in values])

    def update(self, values: Iterable[Any]) -> None:
        """Replace the whole list."""
        self._accessed()
        time = self._ttl.access_time()
        self._inner.update([self._stamped(value, time) for value in values])

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the elements of several namespaces to the target's, for the current key; each keeps its time."""
        self._accessed()
        self._namespace = target
        self._inner.merge_namespaces(target, sources)

    def replace(self, content: Any) -> None:
        self.update(content)

    def peek(self) -> Any:
        return [element.value for element in self._inner.get() if self._visible(element) is not None]

    def _purge(self, user_key: Any) -> None:
        elements: list[Stamped] = list(self._inner.get())
        alive = self._alive(elements)
        if not alive:
            self._inner.clear()
        elif len(alive) < len(elements):
            self._inner.update(alive)

    def _alive(self, elements: list[Stamped]) -> list[Stamped]:
        expired, now = self._ttl.expired, self._ttl.now()
        return [element for element in elements if not expired(element.time, now)]

    def _renew(self, alive: list[Stamped]) -> None:
        time = self._ttl.access_time()
        if any(time > element.time for element in alive):
            self._inner.update([Stamped(element.value, max(time, element.time)) for element in alive])

    @staticmethod
    def _stamped(value: Any, time: int) -> Stamped:
        if value is None:
            raise ValueError("None cannot be an element of a list state")
        return Stamped(value, time)


class TtlMapState(TtlState, MapState[Any, Any]):
    """MapState whose entries expire one by one."""

    def get(self, key: Any) -> Any:
        """The value of a map entry, or None."""
        found = self._entry(key)
        return None if found is None else found.value

    def put(self, key: Any, value: Any) -> None:
        """Set one map entry."""
        self._accessed()
        self._inner.put(key, Stamped(value, self._ttl.access_time()))

    def put_all(self, dict_value: Entries[Any, Any]) -> None:
        """Set several map entries."""
        self._accessed()
        time = self._ttl.access_time()
        self._inner.put_all([(key, Stamped(value, time)) for key, value in pairs_of(dict_value)])

    def remove(self, key: Any) -> None:
        """Remove one map entry, if it exists."""
        self._accessed()
        self._inner.remove(key)

    def contains(self, key: Any) -> bool:
        """Whether the map has an entry."""
        return self._entry(key) is not None

    def items(self) -> Elements[tuple[Any, Any]]:
        """Entries, in the order of the state that stores them."""
        self._accessed()
        found = []
        for key, stamped in list(self._inner.items()):
            visible = self._check(key, stamped)
            if visible is not None:
                found.append((key, visible.value))
        return Elements(found)

    def keys(self) -> Elements[Any]:
        """User keys, in the order of the state that stores them."""
        return Elements([key for key, _ in self.items()])

    def values(self) -> Elements[Any]:
        """Values, in the order of the state that stores them."""
        return Elements([value for _, value in self.items()])

    def is_empty(self) -> bool:
        """Whether the map has no visible entries."""
        self._accessed()
        return all(self._visible(stamped) is None for stamped in self._inner.values())

    def replace(self, content: Any) -> None:
        self.clear()
        self.put_all(content)

    def peek(self) -> Any:
        return {key: stamped.value for key, stamped in self._inner.items() if self._visible(stamped) is not None}

    def _entry(self, key: Any) -> Stamped | None:
        self._accessed()
        return self._check(key, self._inner.get(key))

    def _check(self, key: Any, stamped: Any) -> Stamped | None:
        return self._checked(stamped, lambda: self._inner.remove(key), lambda renewed: self._inner.put(key, renewed))

    def _purge(self, user_key: Any) -> None:
        stamped = self._inner.get(user_key)
        if stamped is not None and self._expired(stamped):
            self._inner.remove(user_key)


def _nothing() -> None:
    pass
