"""A new kind of keyed state works everywhere once it is in the registry: on every backend, through files, with a time
to live, undone, read as data and queried. No module of Tidemill is changed for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.keyed_state import OPERATOR, Backends
from tests.contract.made_up_kinds import (
    COUNTER,
    ELEMENTS,
    SET,
    CounterStateDescriptor,
    ImmutableCounterState,
    ImmutableSetState,
    SetStateDescriptor,
    add_made_up_kinds,
)
from tests.unit.state.backends import commit, restore
from tidemill.common import Time, Types
from tidemill.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import StateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidemill.errors import SerializationError, StateError, StateMigrationError
from tidemill.faults import Fault
from tidemill.ops.queryable import CommittedStates
from tidemill.ops.queryable.answer import NOTHING
from tidemill.state.files.section_kinds import SECTION_KINDS, section_kind
from tidemill.state.files.state_file import decode_sections, encode_sections
from tidemill.state.files.ttl_declared import StandingTime
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.keyed.kinds import KINDS, kind_of
from tidemill.state.keyed.undo import UndoLog
from tidemill.state.merging import merge_sections
from tidemill.state_processor import read
from tidemill.state_processor.job_directory import JobDirectory
from tidemill.testing import JobHarness, KeyedHarness

TTL = 100


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    add_made_up_kinds(monkeypatch)


def descriptors(*, ttl: int | None = None) -> dict[str, StateDescriptor]:
    found: dict[str, StateDescriptor] = {
        "counter": CounterStateDescriptor("counter"),
        "set": SetStateDescriptor("set", Types.STRING()),
    }
    for name, descriptor in found.items():
        descriptor.set_queryable(name)
        if ttl is not None:
            config = StateTtlConfig.new_builder(Time.milliseconds(ttl)).disable_cleanup_in_background()
            descriptor.enable_time_to_live(config.build())
    return found


class States:
    """A counter and a set on a backend."""

    def __init__(self, backend: KeyedStateBackend, *, ttl: int | None = None) -> None:
        self.backend = backend
        self.clock = StandingTime()
        backend.time = self.clock
        made = descriptors(ttl=ttl)
        self.counter: Any = backend.keyed_state(made["counter"])
        self.set: Any = backend.keyed_state(made["set"])
        backend.begin_epoch()

    def count(self, key: str, element: str) -> States:
        self.backend.context.key = key
        self.counter.increment()
        self.set.add(element)
        return self

    def seen(self, *keys: str) -> dict[str, tuple[int, set[str]]]:
        found = {}
        for self.backend.context.key in keys:
            found[self.backend.context.key] = (self.counter.get(), self.set.get_all())
        return found


def test_written_discarded_committed_and_restored(new_backend: Backends) -> None:
    states = States(new_backend())
    files = [commit(states.count("a", "x").count("a", "y").count("b", "x").backend)]
    states.count("a", "z")
    states.backend.discard()
    states.backend.begin_epoch()
    states.backend.context.key = "b"
    states.counter.clear()
    states.set.clear()
    files.append(commit(states.count("a", "x").backend))
    expected = {"a": (3, {"x", "y"}), "b": (0, set())}
    assert states.seen("a", "b") == expected

    stored = [section for data in files if data for section in decode_sections(data, "a file")]
    assert {(one.state, one.kind, one.schema["types"]["kind"]) for one in stored} == {
        ("counter", "value", "counter"),
        ("set", ELEMENTS.name, "set"),
    }
    for keep_deletes in (True, False):
        merged = encode_sections(merge_sections(stored, {OPERATOR: 16}, keep_deletes))[0]
        assert States(restore(new_backend(), [merged])).seen("a", "b") == expected
    assert States(restore(new_backend(), filter(None, files))).seen("a", "b") == expected


def test_entries_expire(new_backend: Backends) -> None:
    states = States(new_backend(), ttl=TTL)
    data = commit(states.count("a", "x").backend)
    assert data is not None
    states = States(restore(new_backend(), [data]), ttl=TTL)
    states.clock.processing_time = TTL - 1
    assert states.seen("a") == {"a": (1, {"x"})}
    states.clock.processing_time = TTL
    assert states.seen("a") == {"a": (0, set())}


@pytest.mark.parametrize("ttl", [None, TTL])
def test_a_call_is_undone(new_backend: Backends, ttl: int | None) -> None:
    backend, log = new_backend(), UndoLog()
    backend.note_changes_in(log)
    states = States(backend, ttl=ttl).count("a", "x")
    log.begin()
    states.count("a", "y").count("b", "y")
    states.set.clear()
    log.roll_back()
    assert states.seen("a", "b") == {"a": (1, {"x"}), "b": (0, set())}


def test_what_is_stored_is_not_taken_for_another_kind(new_backend: Backends) -> None:
    data = commit(States(new_backend()).count("a", "x").backend)
    assert data is not None
    with pytest.raises(StateMigrationError, match=r"is stored as counter state, but .* declares it as value state"):
        restore(new_backend(), [data]).value_state(ValueStateDescriptor("counter", Types.LONG()))


class Count(KeyedProcessFunction):
    """A record is (key, element); a record with no element clears what the key has."""

    def open(self, runtime_context: RuntimeContext) -> None:
        made = descriptors()
        self.counter = runtime_context._keyed_state(made["counter"])
        self.set = runtime_context._keyed_state(made["set"])

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.counter.increment()
        self.set.add(value[1])
        if not value[1]:
            self.counter.clear()
            self.set.clear()
        return ()


def count(env: Any, records: DataStream) -> DataStream:
    return records.key_by(lambda record: record[0], Types.STRING()).process(Count(), Types.LONG()).uid("count")


def test_a_job_with_it_is_restored_read_as_data_and_queried() -> None:
    with JobHarness(count, inputs=["records"], merge_after=3) as job:
        job.epoch(records=[("a", "x"), ("b", "x"), ("c", "x")])
        job.crash(Fault("manifest.before"), records=[("a", "y"), ("a", "x"), ("b", "")])
        job.run()
        job.restart(parallelism=3)
        job.epoch(records=[("c", "z")])
        assert job.state("count", "counter") == {"a": 3, "c": 2}
        assert job.state("count", "set") == {"a": {"x": True, "y": True}, "c": {"x": True, "z": True}}

        data = read(job.storage)
        (described,) = data.operators()
        assert [(state.name, state.kind) for state in described.states] == [("counter", "counter"), ("set", "set")]
        assert data.keyed_state("count", "counter").sort_by("key").to_pydict() == {"key": ["a", "c"], "value": [3, 2]}
        rows = data.keyed_state("count", "set").to_pylist()
        assert {(row["key"], row["map_key"]) for row in rows} == {("a", "x"), ("a", "y"), ("c", "x"), ("c", "z")}
        assert (data.get("count", "counter", "a"), data.get("count", "counter", "b")) == (3, None)
        assert data.get("count", "set", "c") == {"x": True, "z": True}

        queried = CommittedStates(JobDirectory(job.storage, "job-harness", "storage"))
        made = descriptors()
        assert queried.get("counter", "b").plain() is NOTHING
        counted = COUNTER.queried(made["counter"], 3, queried.get("counter", "a").plain())
        assert isinstance(counted, ImmutableCounterState)
        assert counted.get() == 3
        elements = SET.queried(made["set"], 3, queried.get("set", "c").plain())
        assert isinstance(elements, ImmutableSetState)
        assert elements.get_all() == {"x", "z"}


def test_the_harness_shows_and_sets_it() -> None:
    with KeyedHarness(Count(), key_selector=lambda record: record[0], key_type=Types.STRING()) as harness:
        harness.put_state("counter", "a", 5)
        harness.put_state("set", "a", {"w"})
        harness.process(("a", "x"))
        assert harness.state("counter", "a") == 6
        assert harness.state("set", "a") == {"w", "x"}


def test_an_unknown_kind_is_refused(new_backend: Backends, monkeypatch: pytest.MonkeyPatch) -> None:
    data = commit(States(new_backend()).count("a", "x").backend)
    assert data is not None
    (section,) = [one for one in decode_sections(data, "a file") if one.state == "set"]
    monkeypatch.delitem(KINDS, "set")
    monkeypatch.delitem(SECTION_KINDS, ELEMENTS.name)
    with pytest.raises(StateError, match="declares no kind of keyed state; there are value, list, map"):
        kind_of(SetStateDescriptor("set", Types.STRING()))
    with pytest.raises(SerializationError, match="'elements', which this version cannot read"):
        section_kind(section.kind)
    assert merge_sections([section], {OPERATOR: 16}, keep_deletes=False) == [section]  # left for a version that can
