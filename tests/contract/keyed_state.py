"""What the contract tests of keyed state share: the backends under test, and an operator whose subtasks stand on them.

Everything goes the way it goes in production: a delta becomes the bytes of a state file, a restore reads from files the
rows of its own key groups.
"""

from __future__ import annotations

import dataclasses
import enum
import tempfile
from collections.abc import Iterable
from typing import Any, Protocol

from tests.thorough import THOROUGH
from tidemill.common.configuration import Configuration
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.basic import AggregateFunction
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.python_versions import Self
from tidemill.state.backends import choose_backend
from tidemill.state.files.state_file import Section, decode_sections, encode_sections
from tidemill.state.keyed.backend import BackendPlace, KeyedStateBackend
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.key_groups import KeyGroupRange, Subtask, key_group_of, subtask_for_group
from tidemill.state.merging import merge_sections
from tidemill.testing.simulation.disks import fast_directory

MAX_PARALLELISM = 16
OPERATOR = "op"
KINDS = ("value", "list", "map", "reducing", "aggregating")
NOTHING: dict[str, Any] = {"value": None, "list": [], "map": {}, "reducing": None, "aggregating": None}


class NewBackend(Protocol):
    """Makes an empty backend for one subtask of an operator; all it makes are closed at the end of the test."""

    def __call__(
        self,
        parallelism: int = 1,
        subtask: int = 0,
        *,
        key_type: TypeInformation | None = None,
        max_parallelism: int = MAX_PARALLELISM,
    ) -> KeyedStateBackend: ...


#: Every backend must pass every test, and a restore may go from any of them to any other. What stands before a dash is
#: the backend, what follows are its options.
CONFIGURATIONS: dict[str, dict[str, str]] = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb-large-cache": {"state.backend.type": "rocksdb"},
    "rocksdb-small-cache": {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.cached-values": "3",
        "state.backend.rocksdb.timer-service.cache-size": "2",
        "state.backend.rocksdb.write-batch-size": "1 kb",
    },
    "rocksdb-no-cache": {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.cached-values": "0",
        "state.backend.rocksdb.timer-service.factory": "HEAP",
    },
}

#: What tests of single stories run on: state in memory, and state on disk of which little is in memory. The others hold
#: more or less of it in memory: the machine goes from each to each, and ``make thorough`` runs all tests on them.
TELLING = [*CONFIGURATIONS] if THOROUGH else ["hashmap", "rocksdb-small-cache"]


class Backends:
    """The backends of one test, of one configuration, with a directory for their local files."""

    def __init__(self, configuration: str) -> None:
        self.configuration = configuration
        self._directory = tempfile.TemporaryDirectory(prefix="keyed-state-", dir=fast_directory())
        options = {**CONFIGURATIONS[configuration], "state.backend.rocksdb.localdir": self._directory.name}
        self._choice = choose_backend(Configuration.from_dict(options))
        self._made: list[KeyedStateBackend] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(
        self,
        parallelism: int = 1,
        subtask: int = 0,
        *,
        key_type: TypeInformation | None = None,
        max_parallelism: int = MAX_PARALLELISM,
        job_id: str | None = None,
    ) -> KeyedStateBackend:
        """``job_id`` is for backends that are to find what others left on the local disk; else none finds anything."""
        number = Subtask(subtask)
        groups = KeyGroupRange.for_subtask(max_parallelism, parallelism, number)
        place = BackendPlace(
            OPERATOR,
            f"operator {OPERATOR!r}",
            groups,
            max_parallelism,
            key_type,
            job_id=job_id or f"job-{len(self._made)}",
            subtask=number,
        )
        backend = self._choice.create(place)
        self._made.append(backend)
        return backend

    def close(self) -> None:
        for backend in self._made:
            backend.close()
        self._made.clear()
        self._directory.cleanup()


# --- one state of each kind


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


@dataclasses.dataclass(frozen=True)
class Declared:
    """The types under which the states are registered; None is a type that nobody told."""

    key: TypeInformation | None = None
    value: TypeInformation | None = None
    user_key: TypeInformation | None = None
    accumulator: TypeInformation | None = None


UNTYPED = Declared()
TYPED = Declared(Types.LONG(), Types.LONG(), Types.STRING(), Types.LIST(Types.LONG()))


class States:
    """One state of each kind over a backend, named as its kind."""

    def __init__(self, backend: KeyedStateBackend, declared: Declared = UNTYPED) -> None:
        self.backend = backend
        self.value = backend.value_state(ValueStateDescriptor("value", declared.value))
        self.list = backend.list_state(ListStateDescriptor("list", declared.value))
        self.map = backend.map_state(MapStateDescriptor("map", declared.user_key, declared.value))
        self.reducing = backend.reducing_state(ReducingStateDescriptor("reducing", lambda a, b: a + b, declared.value))
        self.aggregating = backend.aggregating_state(
            AggregatingStateDescriptor("aggregating", Joined(), declared.accumulator)
        )

    def all(self) -> list[Any]:
        return [self.value, self.list, self.map, self.reducing, self.aggregating]

    def at(self, key: Any, namespace: Any = None) -> States:
        """Work with a key, in a namespace."""
        self.backend.context.key = canonical_key(key)
        for state in self.all():
            state.set_current_namespace(namespace)
        return self

    def fill(self, number: Any) -> States:
        """Put something into every state of the current key."""
        self.value.update(number)
        self.list.add(number)
        self.map.put(str(number), number)
        self.reducing.add(number)
        self.aggregating.add(number)
        return self

    def clear(self) -> None:
        """Clear every state of the current key."""
        for state in self.all():
            state.clear()

    def seen(self) -> dict[str, Any]:
        """What all states say for the current key."""
        return {
            "value": self.value.value(),
            "list": list(self.list.get()),
            "map": dict(self.map.items()),
            "reducing": self.reducing.get(),
            "aggregating": self.aggregating.get(),
        }


# --- the way to files and back


def commit(backend: KeyedStateBackend) -> list[Section]:
    """End an epoch that counts, and begin the next one; returns its delta."""
    delta = backend.export_delta()
    backend.fold()
    backend.begin_epoch()
    return delta


def abort(backend: KeyedStateBackend) -> None:
    """End an epoch that came to its barrier but does not count, and begin the next one."""
    backend.export_delta()
    backend.discard()
    backend.begin_epoch()


def to_file(sections: list[Section]) -> bytes:
    return encode_sections(sections)[0]


def load(backend: KeyedStateBackend, files: Iterable[bytes]) -> KeyedStateBackend:
    """Load from files, oldest first, what belongs to a backend's key groups."""
    first, last = backend.groups.first, backend.groups.last
    for number, data in enumerate(files):
        for section in decode_sections(data, f"file {number}", {backend.operator}, first, last):
            backend.load(section)
    backend.begin_epoch()
    return backend


def merged(files: Iterable[bytes], *, keep_deletes: bool, max_parallelism: int = MAX_PARALLELISM) -> list[bytes]:
    """The files as one, as a background snapshot makes it; none if nothing is left."""
    sections = [section for data in files for section in decode_sections(data, "file")]
    found = merge_sections(sections, {OPERATOR: max_parallelism}, keep_deletes)
    return [to_file(found)] if found else []


def rows_of(sections: Iterable[Section]) -> dict[str, int]:
    """How many rows the section of each state holds."""
    return {section.state: section.table.num_rows for section in sections}


class Operator:
    """All subtasks of an operator, and the files its committed epochs wrote, oldest first."""

    def __init__(
        self,
        new_backend: NewBackend,
        parallelism: int = 1,
        files: Iterable[bytes] = (),
        declared: Declared = UNTYPED,
        max_parallelism: int = MAX_PARALLELISM,
    ) -> None:
        self.files = list(files)
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.subtasks = [
            States(
                load(
                    new_backend(parallelism, subtask, key_type=declared.key, max_parallelism=max_parallelism),
                    self.files,
                ),
                declared,
            )
            for subtask in range(parallelism)
        ]

    def owner(self, key: Any) -> States:
        """The subtask a key is sent to."""
        group = key_group_of(key, self.max_parallelism)
        return self.subtasks[subtask_for_group(group, self.max_parallelism, self.parallelism)]

    def at(self, key: Any, namespace: Any = None) -> States:
        """The states of a key in a namespace, in the subtask that owns it."""
        return self.owner(key).at(key, namespace)

    def commit(self) -> list[list[Section]]:
        """Commit the epoch in all subtasks; returns their deltas."""
        deltas = [commit(states.backend) for states in self.subtasks]
        self.files += [to_file(delta) for delta in deltas if delta]
        return deltas

    def abort(self) -> None:
        """The epoch does not count."""
        for states in self.subtasks:
            abort(states.backend)

    def exported(self) -> list[bytes]:
        """The whole committed state of all subtasks as files."""
        return [to_file(sections) for states in self.subtasks if (sections := states.backend.export_all())]

    def keys(self, state: str, namespace: Any = None) -> list[Any]:
        """The keys of a state over all subtasks."""
        return [key for states in self.subtasks for key in states.backend.keys(state, namespace)]


# --- keys of all supported kinds


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 10
    HIGH = 11


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: str
