"""A program that declares another type than the stored one: what it registered a migration for, it finds migrated.

After the first epoch nobody needs the migration any more: not a merge, and not a program without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.keyed_state import MAX_PARALLELISM, OPERATOR, Backends, abort, commit, load, merged, to_file
from tidemill.common import Types
from tidemill.common.time import Time
from tidemill.datastream.functions.basic import AggregateFunction
from tidemill.datastream.functions.state_ttl import StateTtlConfig
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import StateError, StateMigrationError
from tidemill.state.files.state_file import decode_sections
from tidemill.state.keyed.backend import KeyedStateBackend, StateVersion
from tidemill.state.keys.key_groups import key_group_spans
from tidemill.state.merging import merge_sections

TEXT, NUMBER = Types.STRING(), Types.LONG()
KEYS = tuple(range(6))


class Last(AggregateFunction):
    """Whose accumulator is what was added last."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


#: For each kind of state: its descriptor for a type, how a value is put into it, and how all of it is read.
KINDS: dict[str, tuple[Callable[[Any], StateDescriptor], Callable[[Any, Any], None], Callable[[Any], Any]]] = {
    "value": (lambda t: ValueStateDescriptor("s", t), lambda s, v: s.update(v), lambda s: s.value()),
    "list": (lambda t: ListStateDescriptor("s", t), lambda s, v: s.add(v), lambda s: list(s.get())),
    "map": (
        lambda t: MapStateDescriptor("s", TEXT, t),
        lambda s, v: s.put(f"of {v}", v),
        lambda s: dict(s.items()),
    ),
    "reducing": (
        lambda t: ReducingStateDescriptor("s", lambda a, b: b, t),
        lambda s, v: s.add(v),
        lambda s: s.get(),
    ),
    "aggregating": (
        lambda t: AggregatingStateDescriptor("s", Last(), t),
        lambda s, v: s.add(v),
        lambda s: s.get(),
    ),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def registered(backend: KeyedStateBackend, descriptor: StateDescriptor) -> Any:
    return getattr(backend, f"{descriptor.kind}_state")(descriptor)


class Program:
    """A program with one state, of one kind and type, on one subtask of its operator."""

    def __init__(self, backend: KeyedStateBackend, kind: str, descriptor: StateDescriptor) -> None:
        self.backend = backend
        _, self._put, self._read = KINDS[kind]
        self.state = registered(backend, descriptor)

    def put(self, key: Any, value: Any) -> None:
        self.backend.context.key = key
        self._put(self.state, value)

    def seen(self, keys: Iterable[Any] = KEYS) -> dict[Any, Any]:
        found = {}
        for key in keys:
            self.backend.context.key = key
            found[key] = self._read(self.state)
        return found


def start(new_backend: Backends, kind: str, type_info: Any, files: Iterable[bytes] = (), **place: Any) -> Program:
    return Program(load(new_backend(key_type=NUMBER, **place), files), kind, KINDS[kind][0](type_info))


def start_migrating(new_backend: Backends, kind: str, files: Iterable[bytes], **place: Any) -> Program:
    descriptor = KINDS[kind][0](NUMBER).migrate_from(TEXT, int)
    return Program(load(new_backend(key_type=NUMBER, **place), files), kind, descriptor)


def written_as_text(new_backend: Backends, kind: str) -> list[bytes]:
    """Two epochs of a program that declares text."""
    old = start(new_backend, kind, TEXT)
    for key in KEYS:
        old.put(key, str(10 * key))
    first = to_file(commit(old.backend))
    old.put(1, "11")
    old.backend.context.key = 2
    old.state.clear()
    return [first, to_file(commit(old.backend))]


def as_numbers(kind: str) -> dict[int, Any]:
    """What a program finds that has migrated it."""
    shape: Callable[[int], Any] = {"list": lambda n: [n], "map": lambda n: {f"of {n}": n}}.get(kind, lambda n: n)
    found = {key: shape(10 * key) for key in KEYS}
    found[1] = {"list": [10, 11], "map": {"of 10": 10, "of 11": 11}}.get(kind, 11)
    found[2] = {"list": [], "map": {}}.get(kind)
    return found


@EACH_KIND
def test_values_are_migrated_by_the_programs_own_function(new_backend: Backends, kind: str) -> None:
    new = start_migrating(new_backend, kind, written_as_text(new_backend, kind))
    assert new.seen() == as_numbers(kind)


@EACH_KIND
def test_after_one_epoch_the_migration_is_not_needed_any_more(new_backend: Backends, kind: str) -> None:
    files = written_as_text(new_backend, kind)
    new = start_migrating(new_backend, kind, files)
    new.put(5, 51)
    files.append(to_file(commit(new.backend)))
    later = start(new_backend, kind, NUMBER, files)
    wanted = as_numbers(kind)
    wanted[5] = {"list": [50, 51], "map": {"of 50": 50, "of 51": 51}}.get(kind, 51)
    assert later.seen() == wanted
    assert commit(later.backend) == []  # what is whole is not written again


@EACH_KIND
def test_what_the_first_epoch_deletes_stays_deleted(new_backend: Backends, kind: str) -> None:
    files = written_as_text(new_backend, kind)
    new = start_migrating(new_backend, kind, files)
    new.backend.context.key = 3
    new.state.clear()
    files.append(to_file(commit(new.backend)))
    assert start(new_backend, kind, NUMBER, files).seen() == new.seen()
    assert new.seen()[3] in (None, [], {})


@EACH_KIND
def test_an_epoch_that_does_not_count_migrates_nothing(new_backend: Backends, kind: str) -> None:
    files = written_as_text(new_backend, kind)
    new = start_migrating(new_backend, kind, files)
    new.put(0, 1)
    abort(new.backend)
    assert new.seen() == as_numbers(kind)
    files.append(to_file(commit(new.backend)))
    assert start(new_backend, kind, NUMBER, files).seen() == as_numbers(kind)


def test_what_user_code_does_to_a_migrated_value_counts_only_with_its_epoch(new_backend: Backends) -> None:
    files = written_as_text(new_backend, "value")
    lists = ValueStateDescriptor("s", Types.LIST(NUMBER)).migrate_from(TEXT, lambda text: [int(text)])
    new = Program(load(new_backend(key_type=NUMBER), files), "value", lists)
    new.seen([3])[3].append(31)
    abort(new.backend)
    assert new.seen([3]) == {3: [30]}


@EACH_KIND
@pytest.mark.parametrize("first", [0, 1])
def test_a_merge_needs_no_migration(new_backend: Backends, kind: str, first: int) -> None:
    """``first`` is the file from which on they are merged: with 1, some of the old ones lie below."""
    files = written_as_text(new_backend, kind)
    new = start_migrating(new_backend, kind, files)
    files.append(to_file(commit(new.backend)))
    new.put(4, 41)
    files.append(to_file(commit(new.backend)))
    files[first:] = merged(files[first:], keep_deletes=first > 0)
    assert len(files) == first + 1
    assert len(list(decode_sections(files[-1], "merged"))) == 1
    assert start(new_backend, kind, NUMBER, files).seen() == new.seen()


@EACH_KIND
def test_a_merge_of_slices_replaces_no_more_than_its_groups(new_backend: Backends, kind: str) -> None:
    files = written_as_text(new_backend, kind)
    new = start_migrating(new_backend, kind, files)
    files.append(to_file(commit(new.backend)))
    slices = []
    for first, last in key_group_spans(MAX_PARALLELISM, 2):
        sections = [s for data in files[1:] for s in decode_sections(data, "file", {OPERATOR}, first, last)]
        found = merge_sections(sections, {OPERATOR: MAX_PARALLELISM}, True, groups={OPERATOR: (first, last)})
        slices.append(to_file(found))
    assert start(new_backend, kind, NUMBER, [files[0], *slices]).seen() == new.seen()


@EACH_KIND
def test_subtasks_migrate_their_part_when_they_register_the_state(new_backend: Backends, kind: str) -> None:
    """One registers it at once, the other, with its first record, later; in between all is merged, and rescaled."""
    files = written_as_text(new_backend, kind)
    early = start_migrating(new_backend, kind, files, parallelism=2, subtask=0)
    files.append(to_file(commit(early.backend)))
    files = merged(files, keep_deletes=False)
    assert start_migrating(new_backend, kind, files).seen() == as_numbers(kind)
    late = start_migrating(new_backend, kind, files, parallelism=2, subtask=1)
    files.append(to_file(commit(late.backend)))
    files = merged(files, keep_deletes=False)
    assert len(list(decode_sections(files[0], "merged"))) == 1
    assert start(new_backend, kind, NUMBER, files).seen() == as_numbers(kind)


@EACH_KIND
@pytest.mark.parametrize("restarted", [False, True])
def test_a_large_state_is_written_again_over_several_epochs(
    new_backend: Backends, kind: str, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile entries change and come, in groups that are done and in others; all is merged, and loaded again."""
    monkeypatch.setattr("tidemill.state.rocksdb.tables.REWRITTEN_AT_ONCE", 1)
    files = written_as_text(new_backend, kind)
    new = start_migrating(new_backend, kind, files)
    keys = [*KEYS, *range(100, 130)]
    for number, key in enumerate(range(100, 130)):
        new.put(key, number)
        new.put(KEYS[number % 6], number)
        if number % 7 == 0:
            new.backend.context.key = keys[number]
            new.state.clear()
        if number % 5 == 3:
            abort(new.backend)
        files.append(to_file(commit(new.backend)))
        if restarted and number % 4 == 1:
            new = start_migrating(new_backend, kind, files)
        if number % 6 == 2:
            files = merged(files, keep_deletes=False)
    assert start(new_backend, kind, NUMBER, files).seen(keys) == new.seen(keys)
    assert start(new_backend, kind, NUMBER, merged(files, keep_deletes=False)).seen(keys) == new.seen(keys)


def test_a_registered_migration_is_called_even_where_values_could_be_converted(new_backend: Backends) -> None:
    """Seconds in an INT become milliseconds in a LONG. Half-way through, a merge must not widen what is left."""
    old = start(new_backend, "value", Types.INT())
    for key in KEYS:
        old.put(key, key)
    files = [to_file(commit(old.backend))]
    millis = ValueStateDescriptor("s", NUMBER).migrate_from(Types.INT(), lambda seconds: 1000 * seconds)
    for subtask in range(2):
        part = load(new_backend(2, subtask, key_type=NUMBER), files)
        registered(part, millis)
        files.append(to_file(commit(part)))
        files = merged(files, keep_deletes=False)
    assert start(new_backend, "value", NUMBER, files).seen() == {key: 1000 * key for key in KEYS}


def test_a_time_to_live_may_come_with_the_migration_and_go_with_the_next(new_backend: Backends) -> None:
    files = written_as_text(new_backend, "value")
    expiring = ValueStateDescriptor("s", NUMBER).migrate_from(TEXT, int)
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    new = Program(load(new_backend(key_type=NUMBER), files), "value", expiring)
    assert new.seen() == as_numbers("value")
    files.append(to_file(commit(new.backend)))
    back = ValueStateDescriptor("s", TEXT).migrate_from(NUMBER, str)
    again = Program(load(new_backend(key_type=NUMBER), files), "value", back)
    wanted = {key: None if value is None else str(value) for key, value in as_numbers("value").items()}
    assert again.seen() == wanted
    files.append(to_file(commit(again.backend)))
    assert start(new_backend, "value", TEXT, merged(files, keep_deletes=False)).seen() == wanted


@dataclass
class Reading:
    celsius: float


def test_values_of_a_class_that_is_gone_arrive_as_plain_data(new_backend: Backends) -> None:
    @dataclass
    class Measured:
        fahrenheit: float
        tags: list[str]

    backend = new_backend(key_type=NUMBER)
    state = registered(backend, ValueStateDescriptor("s", Types.DATACLASS(Measured)))
    backend.context.key = 1
    state.update(Measured(212.0, ["boiling"]))
    file = to_file(commit(backend))
    text = f"{__name__}:{Measured.__qualname__}(fahrenheit: Double, tags: ListTypeInfo<String>)"
    arrived = []

    def migrate(old: Any) -> Reading:
        arrived.append(old)
        return Reading((old["fahrenheit"] - 32) / 1.8)

    descriptor = ValueStateDescriptor("s", Types.DATACLASS(Reading)).migrate_from(text, migrate)
    after = load(new_backend(key_type=NUMBER), [file])
    state = registered(after, descriptor)
    after.context.key = 1
    assert state.value() == Reading(100.0)
    assert arrived == [{"fahrenheit": 212.0, "tags": ["boiling"]}]


def test_each_type_that_may_be_stored_has_its_own_migration(new_backend: Backends) -> None:
    files = written_as_text(new_backend, "value")
    floats = Types.DOUBLE()
    descriptor = ValueStateDescriptor("s", floats).migrate_from(Types.BOOLEAN(), float)
    with pytest.raises(StateMigrationError, match=r"stored:   String\n    declared: Double"):
        registered(load(new_backend(key_type=NUMBER), files), descriptor)
    descriptor.migrate_from(TEXT, lambda text: float(text) / 10)
    state = Program(load(new_backend(key_type=NUMBER), files), "value", descriptor)
    assert state.seen([3, 4]) == {3: 3.0, 4: 4.0}


def test_a_worker_that_left_in_the_middle_of_a_migration_loads_all_again(
    new_backend: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.state.rocksdb.tables.REWRITTEN_AT_ONCE", 1)
    files = written_as_text(new_backend, "value")
    program = start_migrating(new_backend, "value", files, job_id="here")
    program.backend.begin_epoch()
    files.append(to_file(program.backend.export_delta()))
    program.backend.fold(StateVersion("lineage", 3, 3))
    program.backend.close(forget=False)
    back = new_backend(key_type=NUMBER, job_id="here")
    # Which key groups are still stored as text nobody would know: they would stay so, and nothing would be merged.
    assert back.version() is None or new_backend.configuration == "hashmap"
    assert start_migrating(new_backend, "value", files, job_id="there").seen() == as_numbers("value")


@EACH_KIND
def test_what_a_later_epoch_replaced_is_gone_from_the_local_disk_too(new_backend: Backends, kind: str) -> None:
    text = written_as_text(new_backend, kind)
    program = start_migrating(new_backend, kind, text, job_id="here")
    program.backend.begin_epoch()
    migrated = to_file(program.backend.export_delta())
    program.backend.fold(StateVersion("lineage", 3, 3))
    program.backend.close(forget=False)
    # Elsewhere an entry is deleted. Then others, who saw not all of it migrated, write the state whole once more.
    other = start(new_backend, kind, NUMBER, [migrated])
    other.backend.begin_epoch()
    other.backend.context.key = 1
    other.state.clear()
    deleted = to_file(commit(other.backend))
    whole = start_migrating(new_backend, kind, [*text, deleted])
    whole.backend.begin_epoch()
    replaced = to_file(commit(whole.backend))
    backend = new_backend(key_type=NUMBER, job_id="here")
    later = [deleted, replaced] if backend.version() is not None else [*text, migrated, deleted, replaced]
    back = Program(load(backend, later), kind, KINDS[kind][0](NUMBER))
    assert back.seen() == whole.seen()
    assert back.seen([1]) == start(new_backend, kind, NUMBER).seen([1])


def test_a_migration_that_fails_names_the_state_and_the_value(new_backend: Backends) -> None:
    files = written_as_text(new_backend, "value")
    broken = ValueStateDescriptor("s", NUMBER).migrate_from(TEXT, lambda text: {"0": 1}[text])
    with pytest.raises(StateError, match=r"the migration of state 's' from String failed with KeyError: '\d+'"):
        registered(load(new_backend(key_type=NUMBER), files), broken)
    lazy = ValueStateDescriptor("s", NUMBER).migrate_from(TEXT, lambda text: text)
    with pytest.raises(StateError, match=r"the migration of state 's' returned a value that is not of the type"):
        registered(load(new_backend(key_type=NUMBER), files), lazy)


def test_a_migration_to_the_same_type_is_refused(new_backend: Backends) -> None:
    with pytest.raises(StateError, match="from Long to the same type would apply to new values too"):
        registered(new_backend(), ValueStateDescriptor("s", NUMBER).migrate_from(NUMBER, abs))
    with pytest.raises(TypeError, match="a migration is a function"):
        ValueStateDescriptor("s", NUMBER).migrate_from(TEXT, "int")  # type: ignore[arg-type]


def test_keys_are_not_migrated(new_backend: Backends) -> None:
    files = written_as_text(new_backend, "map")
    with pytest.raises(StateMigrationError, match="stored with map keys of another type"):
        registered(load(new_backend(key_type=NUMBER), files), MapStateDescriptor("s", NUMBER, TEXT))
    with pytest.raises(StateMigrationError, match="stored with keys of another type"):
        registered(load(new_backend(key_type=TEXT), files), MapStateDescriptor("s", TEXT, TEXT))


def test_timers_of_other_keys_are_refused(new_backend: Backends) -> None:
    backend = new_backend(key_type=NUMBER)
    backend.event_timers.register(5, 1)
    with pytest.raises(StateMigrationError, match="stored with keys of another type"):
        load(new_backend(key_type=TEXT), [to_file(commit(backend))])
