"""What the tests of time to live share: one state of each kind that expires, on a backend whose clock is at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.contract.keyed_state import Joined
from tests.unit.state.backends import MAX_PARALLELISM, commit, make_backend, restore
from tidemill.common.time import Time
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidemill.state.files.state_file import Section, decode_sections, encode_sections
from tidemill.state.files.ttl_declared import MIN_TIME, StandingTime
from tidemill.state.files.ttl_merge import CommittedTimes
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.merging import merge_sections

KINDS = ("value", "list", "map", "reducing", "aggregating")
TTL = 100
#: What a kind holds after ``write(1)``, and when it holds nothing.
HELD: dict[str, Any] = {"value": 1, "list": [1], "map": {"k": 1}, "reducing": 1, "aggregating": (1,)}
NOTHING: dict[str, Any] = {"value": None, "list": [], "map": {}, "reducing": None, "aggregating": None}


def config(millis: int = TTL) -> StateTtlConfig.Builder:
    """A time to live, by default with no cleanup but on access."""
    return StateTtlConfig.new_builder(Time.milliseconds(millis)).disable_cleanup_in_background()


class Expiring:
    """One state of each kind over a backend of its own, all with the same time to live (or none)."""

    def __init__(
        self,
        ttl: StateTtlConfig | None,
        files: Iterable[bytes] = (),
        now: int = 0,
        watermark: int = MIN_TIME,
        new_backend: Callable[[], KeyedStateBackend] = make_backend,
        per_epoch: int | None = None,
    ) -> None:
        """``per_epoch`` is how many entries are looked at with each epoch, if not as many as usual."""
        self.backend = new_backend()
        self.clock = StandingTime()
        self.clock.processing_time = now
        self.clock.current_watermark = watermark
        self.backend.time = self.clock
        self.files = list(files)
        restore(self.backend, self.files)
        get = self.backend
        self.value = get.value_state(self._with(ttl, ValueStateDescriptor("value")))
        self.list = get.list_state(self._with(ttl, ListStateDescriptor("list")))
        self.map = get.map_state(self._with(ttl, MapStateDescriptor("map")))
        self.reducing = get.reducing_state(self._with(ttl, ReducingStateDescriptor("reducing", lambda a, b: a + b)))
        self.aggregating = get.aggregating_state(self._with(ttl, AggregatingStateDescriptor("aggregating", Joined())))
        for kind in KINDS if per_epoch is not None else ():
            getattr(self, kind)._sweeper._per_epoch = per_epoch
        self.backend.begin_epoch()
        self.backend.context.key = "key"

    @staticmethod
    def _with(ttl: StateTtlConfig | None, descriptor: Any) -> Any:
        if ttl is not None:
            assert isinstance(descriptor, StateDescriptor)
            descriptor.enable_time_to_live(ttl)
        return descriptor

    def at(self, now: int) -> Expiring:
        """Move processing time."""
        self.clock.processing_time = now
        return self

    def key(self, key: Any, namespace: Any = None) -> Expiring:
        """Work with another key."""
        self.backend.context.key = key
        for kind in KINDS:
            getattr(self, kind).set_current_namespace(namespace)
        return self

    def write(self, kind: str, number: int = 1, user_key: str = "k") -> None:
        if kind == "value":
            self.value.update(number)
        elif kind == "map":
            self.map.put(user_key, number)
        else:
            getattr(self, kind).add(number)

    def write_all(self, number: int = 1) -> Expiring:
        for kind in KINDS:
            self.write(kind, number)
        return self

    def read(self, kind: str) -> Any:
        if kind == "value":
            return self.value.value()
        if kind == "list":
            return list(self.list.get())
        return dict(self.map.items()) if kind == "map" else getattr(self, kind).get()

    def seen(self) -> dict[str, Any]:
        return {kind: self.read(kind) for kind in KINDS}

    def commit(self) -> bytes | None:
        data = commit(self.backend)
        if data is not None:
            self.files.append(data)
        self.backend.context.key = "key"
        return data

    def in_memory(self) -> dict[str, int]:
        """The number of committed keys per state, whether they have expired or not."""
        return {name: table.entries() for name, table in self.backend._tables.items() if table.entries()}


def sections_of(files: Iterable[bytes]) -> list[Section]:
    return [section for file in files for section in decode_sections(file, "file")]


def merged(files: Iterable[bytes], times: CommittedTimes | None, *, keep_deletes: bool = False) -> list[bytes]:
    found = merge_sections(sections_of(files), {"op": MAX_PARALLELISM}, keep_deletes, times)
    return [encode_sections(found)[0]] if found else []
