"""Time to live for the keyed states of any backend.

A state with a time to live consists of two: the state of the backend, which stores each value together with the time of
its last access, and around it a decorator that applies the clock (:mod:`~tidemill.state.keyed.ttl_states`). The codec
of the column and the schema of the section record that values have times, and when the time to live was declared: a
background merge can drop expired entries without the program (:mod:`~tidemill.state.files.ttl_merge`).

The time to live of a state can be enabled, disabled, and changed from one start of a program to the next. The time of
values stored without one starts at the restore. Times that are not needed are dropped when they are read. A changed
time to live also applies to stored values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.state.files.ttl_declared import DeclaredTtl, stored_ttl
from tidemill.state.keyed.kinds import kind_of
from tidemill.state.keyed.ttl_cleanup import Sweeper
from tidemill.state.keyed.ttl_states import TtlState

if TYPE_CHECKING:
    from tidemill.state.files.state_file import Section
    from tidemill.state.keyed.backend import KeyedStateBackend

__all__ = ["expires", "expiring_state"]

#: The number of entries of a state checked per epoch: a fraction of a millisecond in memory, a few on local disk.
PER_EPOCH = 1000


def expires(descriptor: StateDescriptor) -> bool:
    """Whether the entries of a state have a time to live."""
    return descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled()


def expiring_state(backend: KeyedStateBackend, descriptor: StateDescriptor, stored: Sequence[Section]) -> TtlState:
    """Register a state whose entries expire; ``stored`` are the sections that a restore has found, oldest first."""
    config = descriptor.ttl_config
    if config is None:
        raise ValueError(f"state {descriptor.name!r} has no time to live")
    known = stored_ttl(stored[-1].schema) if stored else backend.kept_ttl(descriptor.name)
    ttl = DeclaredTtl(config, backend.time, known)
    kind = kind_of(descriptor)
    state = kind.expiring(backend.storing_state(descriptor, ttl), ttl, *kind.arguments(descriptor))
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
