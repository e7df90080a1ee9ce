"""Time to live for the keyed states of any backend.

A state with a time to live is two: the state of the backend, which stores each value together with the time of its last
access, and around it a decorator that minds the clock (:mod:`~tidemill.state.ttl_states`). What is stored tells so, in
the codec of the column and in the schema of the section, and so does when it was declared: a background merge can drop
what has expired without the program (:mod:`~tidemill.state.ttl_merge`).

The time to live of a state can be turned on, off, and changed from one start of a program to the next. What is stored
without a time counts from the restore on; times that are not needed are dropped as they are read; a changed time to
live holds for what is stored too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.datastream.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.state.codec_ttl import StampedTypeInfo
from tidemill.state.ttl_cleanup import Sweeper
from tidemill.state.ttl_declared import DeclaredTtl, stored_ttl
from tidemill.state.ttl_states import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlState,
    TtlValueState,
)

if TYPE_CHECKING:
    from tidemill.state.backend import KeyedStateBackend
    from tidemill.state.state_file import Section

__all__ = ["expires", "expiring_state"]

D = TypeVar("D", bound=StateDescriptor)

#: Entries of a state that are looked at with each epoch: a fraction of a millisecond in memory, a few on local disk.
PER_EPOCH = 1000


class _StampedReducing(ValueStateDescriptor):
    """What stores a reduced value: a value state, which sections still name as what it was declared."""

    kind = "reducing"


class _StampedAggregating(ValueStateDescriptor):
    """What stores an accumulator."""

    kind = "aggregating"


def expires(descriptor: StateDescriptor) -> bool:
    """Whether the entries of a state have a time to live."""
    return descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled()


def expiring_state(backend: KeyedStateBackend, descriptor: StateDescriptor, stored: Sequence[Section]) -> Any:
    """Register a state whose entries expire; ``stored`` is what a restore has found of it, oldest first."""
    config = descriptor.ttl_config
    if config is None:
        raise ValueError(f"state {descriptor.name!r} has no time to live")
    ttl = DeclaredTtl(config, backend.time, stored_ttl(stored[-1].schema) if stored else None)
    state = _decorated(backend, descriptor, ttl)
    incremental = ttl.incremental
    per_access = incremental.get_cleanup_size() if incremental and (ttl.incremental_chosen or backend.in_memory) else 0
    state.cleaned_by(
        Sweeper(
            backend,
            descriptor.name,
            ttl,
            state.purge,
            per_access=per_access,
            per_record=per_access if incremental and incremental.run_cleanup_for_every_record() else 0,
            per_epoch=PER_EPOCH if ttl.in_compaction else 0,
            at_first=ttl.in_full_snapshot,
        )
    )
    backend.event_time_ttl = backend.event_time_ttl or ttl.event_time
    return state


def _decorated(backend: KeyedStateBackend, descriptor: StateDescriptor, ttl: DeclaredTtl) -> TtlState:
    name = descriptor.name
    stored: Any
    if isinstance(descriptor, MapStateDescriptor):
        values = StampedTypeInfo(descriptor.value_type_info, ttl)
        stored = _like(descriptor, MapStateDescriptor(name, descriptor.key_type_info, values))
        return TtlMapState(backend.map_state(stored), ttl)
    if isinstance(descriptor, ListStateDescriptor):
        stored = _like(descriptor, ListStateDescriptor(name, StampedTypeInfo(descriptor.elem_type_info, ttl)))
        return TtlListState(backend.list_state(stored), ttl)
    stamped = StampedTypeInfo(descriptor.type_info, ttl)
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = descriptor.get_reduce_function().reduce
        return TtlReducingState(backend.value_state(_like(descriptor, _StampedReducing(name, stamped))), ttl, reduce)
    if isinstance(descriptor, AggregatingStateDescriptor):
        aggregate = descriptor.get_agg_function()
        stored = _like(descriptor, _StampedAggregating(name, stamped))
        return TtlAggregatingState(backend.value_state(stored), ttl, aggregate)
    stored = _like(descriptor, ValueStateDescriptor(name, stamped))
    return TtlValueState(backend.value_state(stored), ttl, descriptor.default_value)


def _like(descriptor: StateDescriptor, stored: D) -> D:
    """What stores the values of a state, with the migrations of the state and the name it is queried by."""
    stored.migrations = descriptor.migrations
    stored.queryable_name = descriptor.queryable_name
    return stored
