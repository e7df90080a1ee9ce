"""What the tests of keyed state share: a backend, and the way of its state through files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.basic_functions import AggregateFunction
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.state.backend import BackendPlace, KeyedStateBackend
from tidemill.state.hashmap import HashMapBackend
from tidemill.state.key_groups import KeyGroupRange
from tidemill.state.state_file import decode_sections, encode_sections

MAX_PARALLELISM = 16


def make_backend(
    parallelism: int = 1, subtask: int = 0, key_type: TypeInformation | None = None, operator: str = "op"
) -> KeyedStateBackend:
    groups = KeyGroupRange.for_subtask(MAX_PARALLELISM, parallelism, subtask)
    return HashMapBackend(BackendPlace(operator, f"operator {operator!r}", groups, MAX_PARALLELISM, key_type))


def commit(backend: KeyedStateBackend) -> bytes | None:
    """End an epoch as production does: the delta as a file, then the fold; then the next epoch begins."""
    sections = backend.export_delta()
    data = encode_sections(sections)[0] if sections else None
    backend.fold()
    backend.begin_epoch()
    return data


def restore(backend: KeyedStateBackend, files: Iterable[bytes]) -> KeyedStateBackend:
    """Load the part of these files that belongs to a backend's key groups."""
    for number, data in enumerate(files):
        groups = backend.groups
        for section in decode_sections(data, f"file {number}", {backend.operator}, groups.first, groups.last):
            backend.load(section)
    return backend


class Joined(AggregateFunction):
    """An accumulator that is changed in place, as users like to do."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return tuple(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class States:
    """One state of each kind over a backend."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self.backend = backend
        self.value = backend.value_state(ValueStateDescriptor("value"))
        self.list = backend.list_state(ListStateDescriptor("list"))
        self.map = backend.map_state(MapStateDescriptor("map"))
        self.reducing = backend.reducing_state(ReducingStateDescriptor("reducing", lambda a, b: a + b))
        self.aggregating = backend.aggregating_state(AggregatingStateDescriptor("aggregating", Joined()))

    def all(self) -> list[Any]:
        return [self.value, self.list, self.map, self.reducing, self.aggregating]

    def at(self, key: Any, namespace: Any = None) -> States:
        """Work with a key, in a namespace."""
        self.backend.context.key = key
        for state in self.all():
            state.set_current_namespace(namespace)
        return self

    def seen(self) -> dict[str, Any]:
        """What all states say for the current key."""
        return {
            "value": self.value.value(),
            "list": list(self.list.get()),
            "map": dict(self.map.items()),
            "reducing": self.reducing.get(),
            "aggregating": self.aggregating.get(),
        }
